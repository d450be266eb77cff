package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxErrorTexts bounds the memory that an endless stream of different errors can take.
const maxErrorTexts = 20

// tally counts what happened; every field may be read while the flood runs.
type tally struct {
	wanted          atomic.Int64 // messages that started clients are to publish
	attempted       atomic.Int64 // messages handed to a connection
	published       atomic.Int64 // messages confirmed: written to the socket (QoS 0), PUBACK (1), PUBCOMP (2)
	received        atomic.Int64 // different messages that came back
	duplicates      atomic.Int64 // further copies of a message that had come back
	foreign         atomic.Int64 // messages on our topics that are not ours
	connections     atomic.Int64 // connections that the broker accepted
	connectFailures atomic.Int64 // connections that it did not
	connectionsLost atomic.Int64 // connections that ended before their work was done
	errors          atomic.Int64 // clients that did not do all of their work
	rounds          atomic.Int64 // rounds that ran to their end

	firstNs atomic.Int64 // first publish and last confirmation or arrival, since started
	lastNs  atomic.Int64
	started time.Time

	mutex      sync.Mutex
	errorTexts map[string]int64
}

func newTally() *tally {
	return &tally{started: time.Now(), errorTexts: map[string]int64{}}
}

func (t *tally) countAttempt() {
	t.attempted.Add(1)
	if t.firstNs.Load() == 0 {
		t.firstNs.CompareAndSwap(0, max(1, time.Since(t.started).Nanoseconds()))
	}
}

func (t *tally) countPublished() {
	t.published.Add(1)
	t.touch()
}

// countReceived says whether this was the first message of all that came back.
func (t *tally) countReceived() bool {
	t.touch()
	return t.received.Add(1) == 1
}

func (t *tally) touch() {
	t.lastNs.Store(time.Since(t.started).Nanoseconds())
}

// countError records why a client gave up.
func (t *tally) countError(err error) {
	t.errors.Add(1)
	t.note(err)
}

func (t *tally) note(err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	text := err.Error()
	if _, known := t.errorTexts[text]; !known && len(t.errorTexts) >= maxErrorTexts {
		text = "other errors"
	}
	t.errorTexts[text]++
}

// activeSeconds spans the first publish to the last sign of life, pauses included.
func (t *tally) activeSeconds() float64 {
	first, last := t.firstNs.Load(), t.lastNs.Load()
	if first == 0 || last <= first {
		return 0
	}
	return float64(last-first) / float64(time.Second)
}

// arrivals recognises the messages of one client by their sequence numbers.
type arrivals struct {
	seen     []uint64 // one bit for each sequence number
	distinct int
	total    int
	unnamed  bool // constant payloads carry no number: arrivals are counted up to the number published
}

type verdict int

const (
	fresh verdict = iota
	duplicate
	alien
)

func newArrivals(messages int, unnamed bool) *arrivals {
	return &arrivals{seen: make([]uint64, (messages+63)/64), total: messages, unnamed: unnamed}
}

func (a *arrivals) add(payload []byte) verdict {
	if a.unnamed {
		return a.addUnnamed()
	}
	sequence, ok := parseSequence(payload)
	if !ok || sequence >= a.total {
		return alien
	}
	bit := uint64(1) << (sequence % 64)
	if a.seen[sequence/64]&bit != 0 {
		return duplicate
	}
	a.seen[sequence/64] |= bit
	a.distinct++
	return fresh
}

func (a *arrivals) addUnnamed() verdict {
	if a.distinct == a.total {
		return duplicate
	}
	a.distinct++
	return fresh
}

func (a *arrivals) complete() bool {
	return a.distinct == a.total
}
