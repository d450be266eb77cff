package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	firstBackOff   = 500 * time.Millisecond
	longestBackOff = 8 * time.Second
	// settleTime is what clients get to return after the end, so that the summary holds their last counts.
	settleTime = 500 * time.Millisecond
)

var (
	errRoundTimeout = errors.New("global timeout")
	errRepeatLimit  = errors.New("repeat limit")

	errNothingConfirmed = errors.New("the broker is there, but confirmed no message of a whole round")
)

// flood runs rounds of clients and counts what they do.
type flood struct {
	options options
	dial    dialer
	tally   *tally
	report  reporter
	runID   string
	backOff time.Duration

	mutex sync.Mutex
	rates []rates // of the round under way, then of the last one
}

func newFlood(o options, dial dialer, report reporter) *flood {
	return &flood{
		options: o, dial: dial, tally: newTally(), report: report,
		runID: newRunID(), backOff: firstBackOff,
	}
}

// newRunID keeps two floods on one broker apart.
func newRunID() string {
	random := make([]byte, 4)
	if _, err := rand.Read(random); err != nil {
		return fmt.Sprintf("%08x", uint32(time.Now().UnixNano()))
	}
	return hex.EncodeToString(random)
}

// run floods until its rounds are done or ctx ends, and returns what went wrong as a whole, if anything did.
func (f *flood) run(ctx context.Context) error {
	f.report.started(f)
	statusDone := f.showStatus(ctx)
	defer statusDone()
	if !f.options.repeat {
		return f.single(ctx)
	}
	return f.repeatedly(ctx)
}

func (f *flood) single(ctx context.Context) error {
	if err := f.probe(ctx); err != nil {
		return err
	}
	return f.round(ctx, 1)
}

// repeatedly runs round after round; a broker that is away is waited for, not given up on.
func (f *flood) repeatedly(parent context.Context) error {
	ctx := parent
	if f.options.repeatLimit > 0 {
		limited, cancel := context.WithTimeoutCause(parent, f.options.repeatLimit, errRepeatLimit)
		defer cancel()
		ctx = limited
	}
	wait := f.backOff
	for number := 1; ctx.Err() == nil; {
		before := f.tally.published.Load()
		failure := f.probe(ctx)
		if failure == nil {
			// A round's own errors are in the tally; the next round tries again.
			_ = f.round(ctx, number)
			number++
			failure = errNothingConfirmed
		}
		if f.tally.published.Load() > before {
			wait = f.backOff
			pause(ctx, f.options.repeatPause)
			continue
		}
		if ctx.Err() == nil {
			f.tally.note(failure)
			f.report.waiting(failure, wait)
			pause(ctx, wait)
			wait = min(2*wait, longestBackOff)
		}
	}
	return nil
}

// probe opens and closes one connection, so that a wrong address is one clear error and not one for each client.
func (f *flood) probe(ctx context.Context) error {
	c, err := f.dial(ctx, "flood-"+f.runID+"-probe")
	if err != nil {
		if ctx.Err() == nil {
			f.tally.connectFailures.Add(1)
		}
		return err
	}
	c.close()
	return nil
}

// round starts every client in its batch and waits for all of them.
func (f *flood) round(parent context.Context, number int) error {
	ctx, cancel := context.WithTimeoutCause(parent, f.options.globalTimeout, errRoundTimeout)
	defer cancel()
	f.mutex.Lock()
	f.rates = nil
	f.mutex.Unlock()

	var clients sync.WaitGroup
	for n := 0; n < f.options.numClients; n++ {
		if n > 0 && n%f.options.rampUpSize == 0 && !pause(ctx, f.options.rampUpDelay) {
			break
		}
		clients.Add(1)
		go func() {
			defer clients.Done()
			f.client(ctx, fmt.Sprintf("%s-%d-%d", f.runID, number, n))
		}()
	}
	f.settle(ctx, &clients)
	if ctx.Err() == nil {
		f.tally.rounds.Add(1)
		return nil
	}
	if parent.Err() == nil {
		err := fmt.Errorf("round %d was not done within -global-timeout %s", number, f.options.globalTimeout)
		f.tally.note(err)
		return err
	}
	return nil
}

// client runs one client; being stopped from outside is not an error of its own.
func (f *flood) client(ctx context.Context, name string) {
	speed, err := newWorker(f.options, name, f.dial, f.tally, f.report.flooding).run(ctx)
	if err == nil {
		f.mutex.Lock()
		f.rates = append(f.rates, speed)
		f.mutex.Unlock()
		return
	}
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), errRoundTimeout) {
		f.tally.countError(err)
		f.report.clientFailed(name, err)
	}
}

// settle waits for all clients, but after the end of ctx only for as long as an orderly return takes.
func (f *flood) settle(ctx context.Context, clients *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		select {
		case <-done:
		case <-time.After(settleTime):
		}
	}
}

// showStatus prints a line of progress now and then until the returned function is called.
func (f *flood) showStatus(ctx context.Context) func() {
	ctx, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for pause(ctx, f.options.statusInterval) {
			f.report.status(f.tally, f.options.statusInterval)
		}
	}()
	return func() { cancel(); <-stopped }
}

// spread is slowest, median and fastest of the clients that did all of their work in the last round.
type spread struct {
	slowest, median, fastest float64
}

func (f *flood) spreads() (publish, receive spread) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	published, received := make([]float64, len(f.rates)), make([]float64, len(f.rates))
	for i, r := range f.rates {
		published[i], received[i] = r.publish, r.receive
	}
	return newSpread(published), newSpread(received)
}

func newSpread(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	middle := len(values) / 2
	median := values[middle]
	if len(values)%2 == 0 {
		median = (values[middle-1] + values[middle]) / 2
	}
	return spread{slowest: values[0], median: median, fastest: values[len(values)-1]}
}
