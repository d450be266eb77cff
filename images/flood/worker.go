package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// windows are how many messages a client leaves unconfirmed at each QoS. mosquitto 2 holds 20 unreleased QoS 2 messages
// of a client: it acknowledges the 21st, but throws it away, and can say so only in MQTT 5.
var windows = [...]int{100, 100, 20}

// worker is one client of the flood: a publisher and a subscriber on a topic of their own.
type worker struct {
	options options
	name    string // unique among all rounds of all floods
	topic   string
	dial    dialer
	payload payloadMaker
	tally   *tally
	onFirst func() // called when the first message of the whole flood came back

	mutex    sync.Mutex
	arrivals *arrivals
	complete chan struct{} // closed when every message came back
	progress atomic.Int64  // nanoseconds since born of the last sign of life
	born     time.Time
}

// rates are the speeds of one client that did all of its work, in messages a second.
type rates struct {
	publish float64
	receive float64
}

func newWorker(o options, name string, dial dialer, t *tally, onFirst func()) *worker {
	return &worker{
		options: o, name: name, topic: o.topicBase + "/" + name,
		dial: dial, payload: newPayloadMaker(o), tally: t, onFirst: onFirst,
		arrivals: newArrivals(o.numMessages, o.constantPayload != ""),
		complete: make(chan struct{}),
		born:     time.Now(),
	}
}

// run does the client's work once; an error says what kept it from doing all of it.
func (w *worker) run(ctx context.Context) (rates, error) {
	w.tally.wanted.Add(int64(w.options.numMessages))
	subscriber, err := w.connect(ctx, w.name+"-s")
	if err != nil {
		return rates{}, err
	}
	defer subscriber.close()
	if err := subscriber.subscribe(ctx, w.topic, byte(w.options.subscriberQoS), w.arrived); err != nil {
		return rates{}, fmt.Errorf("cannot subscribe: %w", err)
	}
	publisher, err := w.connect(ctx, w.name+"-p")
	if err != nil {
		return rates{}, err
	}
	defer publisher.close()
	return w.exchange(ctx, publisher, subscriber)
}

func (w *worker) connect(ctx context.Context, clientID string) (connection, error) {
	c, err := w.dial(ctx, "flood-"+clientID)
	if err != nil {
		if ctx.Err() == nil {
			w.tally.connectFailures.Add(1)
		}
		return nil, err
	}
	w.tally.connections.Add(1)
	return c, nil
}

// exchange publishes everything and waits until it is confirmed and has come back.
func (w *worker) exchange(parent context.Context, publisher, subscriber connection) (rates, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	w.touch()
	begun := time.Now()
	outcome := make(chan error, 1)
	go func() { outcome <- w.publishAll(ctx, publisher) }()

	quiet := time.NewTimer(w.patience())
	defer quiet.Stop()
	var result rates
	allConfirmed, allBack := outcome, w.complete // each is nil once it has happened
	for allConfirmed != nil || allBack != nil {
		select {
		case err := <-allConfirmed:
			if err != nil {
				return rates{}, err
			}
			allConfirmed = nil
			result.publish = w.perSecond(begun)
		case <-allBack:
			allBack = nil
			result.receive = w.perSecond(begun)
		case err := <-publisher.lost():
			return rates{}, w.countLoss("publisher", err)
		case err := <-subscriber.lost():
			return rates{}, w.countLoss("subscriber", err)
		case <-quiet.C:
			left := w.patience()
			if left <= 0 {
				return rates{}, fmt.Errorf("nothing came for %s while messages were missing", w.options.timeout)
			}
			quiet.Reset(left)
		case <-ctx.Done():
			if allConfirmed != nil {
				<-allConfirmed // the summary counts what it still handed over
			}
			return rates{}, ctx.Err()
		}
	}
	return result, nil
}

// publishAll hands messages over as fast as they are taken and counts each one when it is confirmed. After it nothing is
// handed over any more.
func (w *worker) publishAll(parent context.Context, publisher connection) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	window := windows[w.options.publisherQoS]
	places := make(chan struct{}, window) // one for each unconfirmed message
	pending := make(chan confirmation, window)
	var stopped error
	go func() {
		stopped = w.offerAll(ctx, publisher, places, pending)
		close(pending)
	}()
	for confirm := range pending {
		if err := confirm(ctx); err != nil {
			cancel()
			for range pending { // until offerAll has ended
			}
			return fmt.Errorf("a message was not confirmed: %w", err)
		}
		<-places
		w.tally.countPublished()
		w.touch()
	}
	return stopped
}

func (w *worker) offerAll(ctx context.Context, publisher connection, places chan<- struct{}, pending chan<- confirmation) error {
	for sequence := range w.options.numMessages {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		w.tally.countAttempt()
		// There is room: pending holds as many as there are places.
		pending <- publisher.publish(w.topic, byte(w.options.publisherQoS), w.payload(sequence))
		if !pause(ctx, w.options.pauseBetweenMessages) {
			return ctx.Err()
		}
	}
	return nil
}

// arrived is called by the subscriber for each message on the client's topic.
func (w *worker) arrived(payload []byte) {
	w.mutex.Lock()
	what := w.arrivals.add(payload)
	last := what == fresh && w.arrivals.complete()
	w.mutex.Unlock()
	switch what {
	case fresh:
		if w.tally.countReceived() {
			w.onFirst()
		}
		w.touch()
	case duplicate:
		w.tally.duplicates.Add(1)
	case alien:
		w.tally.foreign.Add(1)
	}
	if last {
		close(w.complete)
	}
}

func (w *worker) touch() {
	w.progress.Store(time.Since(w.born).Nanoseconds())
}

// patience is how long the client still waits for a sign of life.
func (w *worker) patience() time.Duration {
	quiet := time.Since(w.born) - time.Duration(w.progress.Load())
	return w.options.timeout + w.options.pauseBetweenMessages - quiet
}

func (w *worker) countLoss(role string, err error) error {
	w.tally.connectionsLost.Add(1)
	if err == nil {
		err = errors.New("connection closed")
	}
	return fmt.Errorf("%s lost its connection: %w", role, err)
}

func (w *worker) perSecond(begun time.Time) float64 {
	seconds := time.Since(begun).Seconds()
	if seconds <= 0 {
		return 0
	}
	return float64(w.options.numMessages) / seconds
}

// pause waits and says whether the flood goes on.
func pause(ctx context.Context, duration time.Duration) bool {
	if duration <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
