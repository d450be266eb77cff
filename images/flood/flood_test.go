package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeBroker delivers in memory and errs as told, so that every count has a known truth.
type fakeBroker struct {
	mutex           sync.Mutex
	subscribers     map[string]func([]byte)
	perTopic        map[string]int // messages so far
	publishes       int
	unconfirmed     map[string]int
	mostUnconfirmed int

	refuse       func(dialNumber int) bool
	deliver      func(n int, payload []byte) [][]byte // what comes back for the n-th message of a topic
	confirmError error
	silent       bool // never confirms
	afterPublish func(total int)
	dials        int
}

func newFakeBroker() *fakeBroker {
	return &fakeBroker{
		subscribers: map[string]func([]byte){}, perTopic: map[string]int{}, unconfirmed: map[string]int{},
		refuse:       func(int) bool { return false },
		deliver:      func(_ int, payload []byte) [][]byte { return [][]byte{payload} },
		afterPublish: func(int) {},
	}
}

func (b *fakeBroker) dial(_ context.Context, _ string) (connection, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.dials++
	if b.refuse(b.dials) {
		return nil, errors.New("connection refused")
	}
	return &fakeConnection{broker: b, ended: make(chan error)}, nil
}

type fakeConnection struct {
	broker *fakeBroker
	ended  chan error
}

func (c *fakeConnection) subscribe(_ context.Context, topic string, _ byte, arrived func([]byte)) error {
	c.broker.mutex.Lock()
	defer c.broker.mutex.Unlock()
	c.broker.subscribers[topic] = arrived
	return nil
}

func (c *fakeConnection) publish(topic string, _ byte, payload []byte) confirmation {
	b := c.broker
	b.mutex.Lock()
	b.publishes++
	n, total, arrived := b.perTopic[topic], b.publishes, b.subscribers[topic]
	b.perTopic[topic]++
	b.unconfirmed[topic]++
	b.mostUnconfirmed = max(b.mostUnconfirmed, b.unconfirmed[topic])
	b.mutex.Unlock()
	for _, copied := range b.deliver(n, payload) {
		arrived(copied)
	}
	b.afterPublish(total)
	return func(ctx context.Context) error {
		b.mutex.Lock()
		b.unconfirmed[topic]--
		b.mutex.Unlock()
		if b.silent {
			<-ctx.Done()
			return ctx.Err()
		}
		return b.confirmError
	}
}

func (c *fakeConnection) lost() <-chan error { return c.ended }
func (c *fakeConnection) close()             {}

// runFake floods a fake broker and returns the exit code, the summary and what went to standard error.
func runFake(t *testing.T, ctx context.Context, b *fakeBroker, arguments string) (int, map[string]any, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	line := append([]string{"-broker", "tcp://fake", "-json", "-rampup-delay", "1ms"}, strings.Fields(arguments)...)
	code := runCommand(ctx, line, func(options) dialer { return b.dial }, &out, &errOut)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	summary := map[string]any{}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil {
		t.Fatalf("the last line is no JSON: %v in %q (%s)", err, out.String(), errOut.String())
	}
	return code, summary, errOut.String()
}

func expect(t *testing.T, summary map[string]any, wanted string) {
	t.Helper()
	for _, pair := range strings.Fields(wanted) {
		name, value, _ := strings.Cut(pair, "=")
		if found := fmt.Sprint(summary[name]); found != value {
			t.Errorf("%s is %s, wanted %s, in %v", name, found, value, summary)
		}
	}
}

func TestEveryMessageIsCounted(t *testing.T) {
	code, summary, _ := runFake(t, t.Context(), newFakeBroker(), "-num-clients 25 -num-messages 130 -rampup-size 10")
	expect(t, summary, "event=summary wanted=3250 attempted=3250 published=3250 received=3250 duplicates=0 "+
		"foreign=0 errors=0 connections=50 connect_failures=0 rounds=1 interrupted=false")
	if code != exitGood {
		t.Errorf("exit code %d", code)
	}
}

func TestLostDuplicateAndForeignMessages(t *testing.T) {
	b := newFakeBroker()
	b.deliver = func(n int, payload []byte) [][]byte {
		switch n {
		case 2:
			return nil
		case 3:
			return [][]byte{payload, payload, payload}
		case 4:
			return [][]byte{[]byte("not ours"), []byte("10 beyond the last"), payload}
		}
		return [][]byte{payload}
	}
	code, summary, _ := runFake(t, t.Context(), b, "-num-clients 4 -num-messages 10 -timeout 100ms")
	expect(t, summary, "published=40 received=36 duplicates=8 foreign=8 errors=4")
	if code != exitFailed {
		t.Errorf("exit code %d although messages are missing", code)
	}
}

func TestConstantPayloadIsCountedByArrival(t *testing.T) {
	b := newFakeBroker()
	b.deliver = func(n int, payload []byte) [][]byte {
		if n == 9 {
			return [][]byte{payload, payload}
		}
		return [][]byte{payload}
	}
	_, summary, _ := runFake(t, t.Context(), b, "-num-clients 2 -num-messages 10 -constant-payload same")
	expect(t, summary, "published=20 received=20 duplicates=2 errors=0")
}

func TestNothingIsPublishedBeforeItIsConfirmed(t *testing.T) {
	b := newFakeBroker()
	b.silent = true
	_, summary, _ := runFake(t, t.Context(), b, "-num-clients 2 -num-messages 10 -publisher-qos 1 -global-timeout 200ms")
	expect(t, summary, "attempted=20 published=0 received=20 errors=2 rounds=0")
}

func TestQoS2StaysWithinTheBrokersQuota(t *testing.T) {
	b := newFakeBroker()
	_, summary, _ := runFake(t, t.Context(), b, "-num-clients 3 -num-messages 500 -publisher-qos 2")
	expect(t, summary, "published=1500 received=1500")
	if b.mostUnconfirmed > 20 {
		t.Errorf("%d messages of one client were unconfirmed at once", b.mostUnconfirmed)
	}
}

func TestRefusedConfirmationIsAnError(t *testing.T) {
	b := newFakeBroker()
	b.confirmError = errors.New("broken")
	code, summary, _ := runFake(t, t.Context(), b, "-num-clients 3 -num-messages 1")
	expect(t, summary, "published=0 errors=3")
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
}

func TestConnectionFailuresAreCounted(t *testing.T) {
	b := newFakeBroker()
	b.refuse = func(dial int) bool { return dial > 1 && dial%4 == 0 }
	_, summary, _ := runFake(t, t.Context(), b, "-num-clients 12 -num-messages 1")
	failures := summary["connect_failures"].(float64)
	if failures == 0 || summary["errors"].(float64) != failures || summary["received"].(float64) != 12-failures {
		t.Errorf("counts do not add up: %v", summary)
	}
}

func TestDownBrokerIsOneClearError(t *testing.T) {
	b := newFakeBroker()
	b.refuse = func(int) bool { return true }
	var out, errOut bytes.Buffer
	code := runCommand(t.Context(), []string{"-broker", "tcp://fake", "-no-progress"},
		func(options) dialer { return b.dial }, &out, &errOut)
	if code != exitFailed || b.dials != 1 || out.Len() != 0 {
		t.Errorf("exit code %d after %d tries, %q", code, b.dials, out.String())
	}
	if !strings.Contains(errOut.String(), "refused") || !strings.Contains(errOut.String(), "-broker") {
		t.Errorf("the message has no cause or no remedy: %q", errOut.String())
	}
}

func TestRepeatGoesOnUntilStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newFakeBroker()
	b.afterPublish = func(total int) {
		if total == 60 {
			stop()
		}
	}
	code, summary, _ := runFake(t, ctx, b, "-num-clients 1 -num-messages 10 -repeat")
	if rounds := summary["rounds"].(float64); rounds < 5 || rounds > 6 {
		t.Errorf("%v rounds for 60 messages", rounds)
	}
	expect(t, summary, "interrupted=true errors=0")
	if code != exitGood {
		t.Errorf("exit code %d", code)
	}
}

func TestRepeatEndsAtItsLimit(t *testing.T) {
	begun := time.Now()
	code, summary, _ := runFake(t, t.Context(), newFakeBroker(), "-num-clients 1 -num-messages 1 -repeat -repeat-limit 300ms -repeat-pause 10ms")
	if took := time.Since(begun); took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("ended after %s", took)
	}
	if code != exitGood || summary["rounds"].(float64) < 2 {
		t.Errorf("exit code %d, %v", code, summary)
	}
}

func TestRepeatWaitsForABrokerThatIsDown(t *testing.T) {
	b := newFakeBroker()
	b.refuse = func(dial int) bool { return dial <= 2 }
	report := &lineReporter{options: options{quiet: true}, out: &bytes.Buffer{}, errors: &bytes.Buffer{}}
	o, err := parseOptions(strings.Fields("-broker tcp://fake -num-clients 1 -num-messages 1 -repeat -repeat-limit 1s -repeat-pause 50ms"), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFlood(o, b.dial, report)
	f.backOff = 20 * time.Millisecond
	if err := f.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.tally.connectFailures.Load() != 2 || f.tally.received.Load() < 2 {
		t.Errorf("%d failures, %d received", f.tally.connectFailures.Load(), f.tally.received.Load())
	}
}

func TestStopEndsAtOnceWithASummary(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	b := newFakeBroker()
	b.deliver = func(n int, payload []byte) [][]byte {
		if n > 3 {
			return nil
		}
		return [][]byte{payload}
	}
	time.AfterFunc(200*time.Millisecond, stop)
	begun := time.Now()
	code, summary, _ := runFake(t, ctx, b, "-num-clients 5 -num-messages 8 -timeout 60s")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("took %s to stop", took)
	}
	expect(t, summary, "interrupted=true published=40 received=20 errors=0")
	if code != exitGood {
		t.Errorf("exit code %d", code)
	}
}

func TestRampUpStartsBatches(t *testing.T) {
	begun := time.Now()
	runFake(t, t.Context(), newFakeBroker(), "-num-clients 7 -num-messages 1 -rampup-size 2 -rampup-delay 50ms")
	if took := time.Since(begun); took < 150*time.Millisecond {
		t.Errorf("four batches took only %s", took)
	}
}

func TestSpread(t *testing.T) {
	if s := newSpread([]float64{4, 1, 2}); s != (spread{1, 2, 4}) {
		t.Errorf("%v", s)
	}
	if s := newSpread([]float64{4, 1, 2, 3}); s != (spread{1, 2.5, 4}) {
		t.Errorf("%v", s)
	}
	if s := newSpread(nil); s != (spread{}) {
		t.Errorf("%v", s)
	}
}

func TestTheSummaryCountsEveryMessageThatWasHandedOver(t *testing.T) {
	for range 5 {
		ctx, stop := context.WithCancel(t.Context())
		b := newFakeBroker()
		b.afterPublish = func(total int) {
			if total == 100 {
				stop()
			}
			time.Sleep(time.Millisecond)
		}
		_, summary, _ := runFake(t, ctx, b, "-num-clients 20 -num-messages 1000")
		time.Sleep(5 * time.Millisecond)
		b.mutex.Lock()
		handedOver := b.publishes
		b.mutex.Unlock()
		expect(t, summary, fmt.Sprintf("interrupted=true attempted=%d", handedOver))
	}
}
