package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// confirmedBy says what a message counts as published by, at each QoS of the publisher.
var confirmedBy = [...]string{"written to the socket, QoS 0 has no acknowledgement", "PUBACK received", "PUBCOMP received"}

// reporter tells people or programs how the flood goes.
type reporter interface {
	started(f *flood)
	flooding()
	waiting(err error, pause time.Duration)
	status(t *tally, interval time.Duration)
	clientFailed(name string, err error)
	summary(f *flood, interrupted bool)
}

// lineReporter writes whole lines, as text or as JSON objects.
type lineReporter struct {
	options options
	out     io.Writer
	errors  io.Writer

	mutex         sync.Mutex
	lastPublished int64
	lastReceived  int64
}

// event is one line of -json; a new field may be added, none changes its meaning.
type event map[string]any

func (r *lineReporter) write(e event, text string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if !r.options.json {
		fmt.Fprintln(r.out, text)
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		fmt.Fprintln(r.errors, "flood: cannot write an event:", err)
		return
	}
	fmt.Fprintln(r.out, string(line))
}

func (r *lineReporter) progress(e event, text string) {
	if !r.options.quiet {
		r.write(e, text)
	}
}

func (r *lineReporter) started(f *flood) {
	o := f.options
	r.progress(event{
		"event": "started", "broker": o.broker, "clients": o.numClients, "messages_per_client": o.numMessages,
		"publisher_qos": o.publisherQoS, "subscriber_qos": o.subscriberQoS, "repeat": o.repeat, "run": f.runID,
	}, fmt.Sprintf("flood: %d clients x %d messages to %s, %d clients every %s, topics below %s",
		o.numClients, o.numMessages, o.broker, o.rampUpSize, o.rampUpDelay, o.topicBase))
}

func (r *lineReporter) flooding() {
	r.progress(event{"event": "flooding"}, "flood: the first message came back through the broker")
}

func (r *lineReporter) waiting(err error, pause time.Duration) {
	r.progress(event{"event": "waiting", "error": err.Error(), "pause_s": pause.Seconds()},
		fmt.Sprintf("flood: %v; trying again in %s", err, pause))
}

func (r *lineReporter) status(t *tally, interval time.Duration) {
	published, received := t.published.Load(), t.received.Load()
	r.mutex.Lock()
	newPublished, newReceived := published-r.lastPublished, received-r.lastReceived
	r.lastPublished, r.lastReceived = published, received
	r.mutex.Unlock()
	publishRate, receiveRate := float64(newPublished)/interval.Seconds(), float64(newReceived)/interval.Seconds()
	r.progress(event{
		"event": "status", "rounds": t.rounds.Load(), "published": published, "received": received,
		"errors": t.errors.Load(), "connect_failures": t.connectFailures.Load(),
		"interval_s": interval.Seconds(), "published_per_s": publishRate, "received_per_s": receiveRate,
	}, fmt.Sprintf("flood: published %d (%.0f/s), received %d (%.0f/s), errors %d, rounds %d",
		published, publishRate, received, receiveRate, t.errors.Load(), t.rounds.Load()))
}

func (r *lineReporter) clientFailed(name string, err error) {
	if r.options.logLevel == 1 || r.options.logLevel == 3 {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		fmt.Fprintf(r.errors, "flood: client %s: %v\n", name, err)
	}
}

func (r *lineReporter) summary(f *flood, interrupted bool) {
	if r.options.json {
		r.write(summaryEvent(f, interrupted), "")
		return
	}
	r.write(nil, summaryText(f, interrupted))
}

func summaryEvent(f *flood, interrupted bool) event {
	t := f.tally
	publish, receive := f.spreads()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return event{
		"event": "summary", "interrupted": interrupted, "rounds": t.rounds.Load(),
		"wanted": t.wanted.Load(), "attempted": t.attempted.Load(),
		"published": t.published.Load(), "received": t.received.Load(),
		"duplicates": t.duplicates.Load(), "foreign": t.foreign.Load(),
		"connections": t.connections.Load(), "connect_failures": t.connectFailures.Load(),
		"connections_lost": t.connectionsLost.Load(), "errors": t.errors.Load(), "error_texts": t.errorTexts,
		"active_s":             t.activeSeconds(),
		"published_per_s":      perSecond(t.published.Load(), t.activeSeconds()),
		"received_per_s":       perSecond(t.received.Load(), t.activeSeconds()),
		"client_publish_per_s": event{"slowest": publish.slowest, "median": publish.median, "fastest": publish.fastest},
		"client_receive_per_s": event{"slowest": receive.slowest, "median": receive.median, "fastest": receive.fastest},
	}
}

func summaryText(f *flood, interrupted bool) string {
	t := f.tally
	seconds := t.activeSeconds()
	publish, receive := f.spreads()
	text := "\n# Results\n"
	if interrupted {
		text += "stopped by a signal before its work was done\n"
	}
	text += fmt.Sprintf("rounds done:          %d\n", t.rounds.Load())
	text += fmt.Sprintf("published messages:   %d of %d (%s)\n", t.published.Load(), t.wanted.Load(), confirmedBy[f.options.publisherQoS])
	text += fmt.Sprintf("unconfirmed:          %d\n", t.attempted.Load()-t.published.Load())
	text += fmt.Sprintf("received messages:    %d (duplicates %d, foreign %d)\n", t.received.Load(), t.duplicates.Load(), t.foreign.Load())
	text += fmt.Sprintf("connections:          %d (failures %d, lost %d)\n", t.connections.Load(), t.connectFailures.Load(), t.connectionsLost.Load())
	text += fmt.Sprintf("clients with errors:  %d\n", t.errors.Load())
	text += fmt.Sprintf("throughput:           published %.0f/s, received %.0f/s over %.2f s, ramp-up included\n",
		perSecond(t.published.Load(), seconds), perSecond(t.received.Load(), seconds), seconds)
	text += fmt.Sprintf("a client's publishing: slowest %.0f/s, median %.0f/s, fastest %.0f/s (last round)\n", publish.slowest, publish.median, publish.fastest)
	text += fmt.Sprintf("a client's receiving:  slowest %.0f/s, median %.0f/s, fastest %.0f/s (last round)", receive.slowest, receive.median, receive.fastest)
	return text + errorLines(t)
}

func errorLines(t *tally) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	text := ""
	for message, count := range t.errorTexts {
		text += fmt.Sprintf("\nerror, %d times: %s", count, message)
	}
	return text
}

func perSecond(count int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(count) / seconds
}
