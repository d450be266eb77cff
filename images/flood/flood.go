// Command flood loads an MQTT broker with the command line of mqtt-stresser; it can repeat until it is stopped.
//
// flood -help lists every flag with its default. Each client publishes and subscribes on its own topic below
// internal/looplab-flood/, and reconnects for each round.
//
// A message is published once it is written (QoS 0) or confirmed (QoS 1 and 2), and received when its number comes back
// for the first time.
//
// -program FILE (or FLOOD_PROGRAM) leaves each round to the mqtt-stresser in that file, with the same options. A client
// of mqtt-stresser that misses a message waits for -global-timeout. The next round starts without it, once all clients
// of the round have started. The process is ended as long after that. The image with FLOOD_IMAGE is built so; where
// FLOOD_IMAGE is empty, this program does the rounds itself.
//
// -repeat (or FLOOD_REPEAT=true) starts a new round after each one, until SIGTERM or -repeat-limit. It waits for a
// broker that is down. SIGTERM and SIGINT end the flood within a second, with its summary. Exit codes: 0 done or
// stopped; 1 a client had an error, or the round took longer than -global-timeout; 2 wrong use.
//
// Each line of output is a JSON object with all counts, seconds since the start, and an event. That is started,
// flooding (the first message came back), status, client failed, waiting (no message of a round was confirmed) or
// summary.
//
// Not supported: TLS, -retain (it would leave messages on the broker) and the profiling flags.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// mqtt-stresser's names and defaults first, then the lab's own.
var (
	broker          = flag.String("broker", "", "broker `URL`, as tcp://host:port")
	numClients      = flag.Int("num-clients", 10, "clients, each a publisher and a subscriber on a topic of its own")
	numMessages     = flag.Int("num-messages", 10, "messages that each client publishes")
	timeout         = flag.Duration("timeout", 5*time.Second, "longest wait for an answer; a client gives up after one without a message")
	globalTimeout   = flag.Duration("global-timeout", time.Minute, "longest time for a whole round")
	rampUpSize      = flag.Int("rampup-size", 100, "clients started at once")
	rampUpDelay     = flag.Duration("rampup-delay", 500*time.Millisecond, "pause between two batches of clients")
	messagePause    = flag.Duration("pause-between-messages", 0, "pause of each client after each message")
	username        = flag.String("username", "", "user name for the broker")
	password        = flag.String("password", "", "password for the broker")
	publisherQoS    = flag.Int("publisher-qos", 0, "QoS of the published messages")
	subscriberQoS   = flag.Int("subscriber-qos", 0, "QoS of the subscriptions")
	constantPayload = flag.String("constant-payload", "", "the same payload in every message, or @FILE to read it (no sequence numbers then)")
	minChars        = flag.Int("min-msg-chars", 0, "shortest payload, in bytes (never less than its sequence number)")
	maxChars        = flag.Int("max-msg-chars", 0, "longest payload, in bytes")
	topicBase       = flag.String("topic-base-path", "internal/looplab-flood", "topic below which the flood publishes")
	logLevel        = flag.Int("log-level", 0, "0 nothing, 1 errors, 2 debug, 3 both, on standard error")
	noProgress      = flag.Bool("no-progress", false, "print nothing before the summary")
	statusInterval  = flag.Duration("status-interval", 5*time.Second, "time between two lines of progress")
	repeat          = flag.Bool("repeat", os.Getenv("FLOOD_REPEAT") == "true", "start a new round after each one and wait for a broker that is down (or FLOOD_REPEAT=true)")
	repeatLimit     = flag.Duration("repeat-limit", 24*time.Hour, "end of all rounds, so that a forgotten flood stops by itself")
	program         = flag.String("program", os.Getenv("FLOOD_PROGRAM"), "`FILE` of mqtt-stresser, which then does each round, with the same options (or FLOOD_PROGRAM)")
)

// own are the options that mqtt-stresser lacks.
var own = " status-interval repeat repeat-limit program "

// flood counts what its clients do; each counter may be read while they run.
type flood struct {
	begun                                                       time.Time
	wanted, attempted, published, received, duplicates, foreign atomic.Int64 // messages
	clients, errors, rounds                                     atomic.Int64
	connections, connectFailures, connectionsLost               atomic.Int64
	programs                                                    sync.WaitGroup
}

// main exits with the lab's codes: 0 good, 1 failed, 2 wrong use. Where rounds repeat, losses are no failure.
func main() {
	flag.Parse()
	if err := checkOptions(); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	f := &flood{begun: time.Now()}
	f.report("started", nil)
	go func() {
		for pause(ctx, *statusInterval) {
			f.report("status", nil)
		}
	}()
	failure := f.run(ctx)
	f.report("summary", failure)
	if ctx.Err() == nil && !*repeat && (failure != nil || f.errors.Load() > 0) {
		os.Exit(1)
	}
}

// checkOptions completes the flags' values; an error names the flag and what to write.
func checkOptions() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: every option starts with a dash, see -help", flag.Arg(0))
	}
	if !strings.HasPrefix(*broker, "tcp://") {
		return fmt.Errorf("-broker %q: write tcp://host:1883 (TLS is not supported)", *broker)
	}
	// A message on the control loop's topics would count as malformed there.
	first, _, _ := strings.Cut(*topicBase, "/")
	if strings.ContainsAny(*topicBase, "+#") || strings.Contains(" request answer lab $SYS ", " "+first+" ") {
		return fmt.Errorf("-topic-base-path %q: choose a topic without wildcards, and none below request, answer, lab or $SYS", *topicBase)
	}
	if file, named := strings.CutPrefix(*constantPayload, "@"); named {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("-constant-payload: %w: name a readable file after the @", err)
		}
		*constantPayload = string(content)
	}
	if *logLevel&1 != 0 {
		mqtt.ERROR = log.New(os.Stderr, "mqtt error: ", log.Lmicroseconds)
	}
	if *logLevel&2 != 0 {
		mqtt.DEBUG = log.New(os.Stderr, "mqtt debug: ", log.Lmicroseconds)
	}
	return errors.Join(
		within("num-clients", *numClients, 1, 20_000), within("num-messages", *numMessages, 1, 100_000_000),
		within("rampup-size", *rampUpSize, 1, 20_000), within("status-interval", int(*statusInterval), 1, int(time.Hour)),
		within("publisher-qos", *publisherQoS, 0, 2), within("subscriber-qos", *subscriberQoS, 0, 2),
		within("min-msg-chars", *minChars, 0, *maxChars), within("max-msg-chars", *maxChars, 0, 1<<20),
	)
}

func within(name string, value, least, most int) error {
	if value < least || value > most {
		return fmt.Errorf("-%s %d is out of range: choose %d to %d", name, value, least, most)
	}
	return nil
}

// report prints all counts as one line of JSON.
func (f *flood) report(event string, err error) {
	if *noProgress && event != "summary" {
		return
	}
	facts := map[string]any{
		"event": event, "seconds": time.Since(f.begun).Seconds(), "clients": f.clients.Load(), "errors": f.errors.Load(), "rounds": f.rounds.Load(),
		"wanted": f.wanted.Load(), "attempted": f.attempted.Load(), "published": f.published.Load(), "received": f.received.Load(),
		"duplicates": f.duplicates.Load(), "foreign": f.foreign.Load(), "connections": f.connections.Load(),
		"connect_failures": f.connectFailures.Load(), "connections_lost": f.connectionsLost.Load(),
	}
	if err != nil {
		facts["error"] = err.Error()
	}
	line, _ := json.Marshal(facts)
	fmt.Println(string(line))
}

// run runs one round or, with -repeat, rounds until ctx or -repeat-limit ends.
func (f *flood) run(ctx context.Context) error {
	if !*repeat {
		return f.round(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, *repeatLimit)
	defer f.programs.Wait()
	defer cancel()
	for ctx.Err() == nil {
		before := f.published.Load()
		if err := f.round(ctx); f.published.Load() == before && (*program == "" || err != nil) {
			f.report("waiting", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

// round starts every client in its batch and waits for all of them; its error is of the round, not of one client.
func (f *flood) round(parent context.Context) error {
	if *program != "" {
		return f.runProgram(parent)
	}
	ctx, cancel := context.WithTimeoutCause(parent, *globalTimeout, errors.New("the round took longer than -global-timeout"))
	defer cancel()
	var clients sync.WaitGroup
	for n := 0; n < *numClients && (n == 0 || n%*rampUpSize != 0 || pause(ctx, *rampUpDelay)); n++ {
		clients.Add(1)
		go func() {
			defer clients.Done()
			// Being stopped from outside is no error of the client.
			if err := f.client(ctx); err != nil && parent.Err() == nil {
				f.errors.Add(1)
				f.report("client failed", err)
			}
		}()
	}
	clients.Wait()
	if ctx.Err() == nil {
		f.rounds.Add(1)
	}
	return context.Cause(ctx)
}

// runProgram runs a round of mqtt-stresser. It returns once that has ended, or should have: a client that misses a message
// waits for -global-timeout, 180 s as published, and the flood would pause meanwhile. The process gets as much time again.
func (f *flood) runProgram(parent context.Context) error {
	batches := (*numClients + *rampUpSize - 1) / *rampUpSize
	length := max(time.Second, time.Duration(batches)**rampUpDelay+time.Duration(*numMessages)**messagePause)
	ctx, cancel := context.WithTimeout(parent, 2*length)
	command := exec.CommandContext(ctx, *program, programOptions()...)
	// It has options alone; variables are for this program.
	command.Env = []string{}
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Second
	ended := make(chan error, 1)
	f.programs.Add(1)
	go func() {
		defer f.programs.Done()
		defer cancel()
		ended <- command.Run()
	}()
	f.clients.Add(int64(*numClients))
	f.wanted.Add(int64(*numClients * *numMessages))
	select {
	case err := <-ended:
		f.rounds.Add(1)
		return err
	case <-time.After(length):
		f.report("round goes on", nil)
	case <-parent.Done():
	}
	return nil
}

// programOptions returns the options that were given, without the lab's own.
func programOptions() (options []string) {
	flag.Visit(func(f *flag.Flag) {
		if !strings.Contains(own, " "+f.Name+" ") {
			options = append(options, "-"+f.Name+"="+f.Value.String())
		}
	})
	return options
}

// pause waits and returns whether the flood goes on.
func pause(ctx context.Context, duration time.Duration) bool {
	if duration > 0 {
		select {
		case <-time.After(duration):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// windows are the unconfirmed messages of a client at each QoS, less the two that publish holds. mosquitto 2 keeps 20
// unreleased QoS 2 messages of a client: it acknowledges the 21st but drops it, and can report that in MQTT 5 only.
var windows = [...]int{98, 98, 18}

// client is a publisher and a subscriber on a topic of their own.
type client struct {
	*flood
	seen     []bool // by sequence number
	arrivals int
	missing  atomic.Int64  // confirmations and arrivals
	complete chan struct{} // closed when none is missing
}

func newClient(f *flood) *client {
	c := &client{flood: f, seen: make([]bool, *numMessages), complete: make(chan struct{})}
	c.missing.Store(2 * int64(*numMessages))
	return c
}

// client publishes everything and waits until it is confirmed and has come back.
func (f *flood) client(parent context.Context) error {
	// Unique among all floods on this broker.
	name := fmt.Sprintf("%d-%x-%d", os.Getpid(), f.begun.UnixNano(), f.clients.Add(1))
	f.wanted.Add(int64(*numMessages))
	c := newClient(f)
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	lost := make(chan error, 2)
	subscriber, err := c.connect(ctx, name+"-s", lost)
	if err != nil {
		return err
	}
	topic := *topicBase + "/" + name
	subscribe := func() mqtt.Token { return subscriber.Subscribe(topic, byte(*subscriberQoS), c.arrived) }
	if err := await(ctx, subscribe); err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	publisher, err := c.connect(ctx, name+"-p", lost)
	if err != nil {
		return err
	}
	go c.publish(ctx, publisher, topic)
	for before := int64(-1); ; before = c.missing.Load() {
		select {
		case <-c.complete:
			return nil
		case err := <-lost:
			c.connectionsLost.Add(1)
			return fmt.Errorf("connection lost: %w", err)
		case <-time.After(*timeout + *messagePause):
			if c.missing.Load() == before {
				return fmt.Errorf("no message within -timeout %s, although some are missing", *timeout)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// publish hands messages over as fast as the window permits; if one fails, the connection is lost.
func (c *client) publish(ctx context.Context, publisher mqtt.Client, topic string) {
	pending := make(chan mqtt.Token, windows[*publisherQoS])
	defer close(pending)
	go func() {
		for token := range pending {
			if token.Wait() && token.Error() == nil {
				c.published.Add(1)
				c.progress()
			}
		}
	}()
	for sequence := range *numMessages {
		// Counted before ctx is read, so that the summary misses no message.
		c.attempted.Add(1)
		if ctx.Err() != nil {
			c.attempted.Add(-1)
			return
		}
		pending <- publisher.Publish(topic, byte(*publisherQoS), false, payload(sequence))
		pause(ctx, *messagePause)
	}
}

// arrived counts one message; the library calls it for one after the other.
func (c *client) arrived(_ mqtt.Client, message mqtt.Message) {
	head, _, found := bytes.Cut(message.Payload(), []byte{' '})
	sequence, err := strconv.Atoi(string(head))
	if *constantPayload != "" {
		sequence, found, err = min(c.arrivals, len(c.seen)-1), true, nil
	}
	c.arrivals++
	switch {
	case !found || err != nil || sequence < 0 || sequence >= len(c.seen):
		c.foreign.Add(1)
	case c.seen[sequence]:
		c.duplicates.Add(1)
	default:
		c.seen[sequence] = true
		if c.received.Add(1) == 1 {
			c.report("flooding", nil)
		}
		c.progress()
	}
}

func (c *client) progress() {
	if c.missing.Add(-1) == 0 {
		close(c.complete)
	}
}

// connect opens a connection until ctx ends; if it breaks before, the cause is sent to lost.
func (f *flood) connect(ctx context.Context, name string, lost chan<- error) (mqtt.Client, error) {
	settings := mqtt.NewClientOptions().AddBroker(*broker).SetClientID("flood-" + name).SetUsername(*username).SetPassword(*password)
	settings.SetProtocolVersion(4).SetAutoReconnect(false).SetConnectTimeout(*timeout).SetWriteTimeout(*timeout)
	settings.SetConnectionLostHandler(func(_ mqtt.Client, err error) { lost <- err })
	// In a goroutine, also if it comes late: this library's Disconnect can block on a connection that is just breaking.
	settings.SetOnConnectHandler(func(opened mqtt.Client) {
		context.AfterFunc(ctx, func() { opened.Disconnect(20) })
	})
	connection := mqtt.NewClient(settings)
	if err := await(ctx, connection.Connect); err != nil {
		f.connectFailures.Add(1)
		return nil, fmt.Errorf("cannot connect to %s: %w; start the broker, or name the right one with -broker", *broker, err)
	}
	f.connections.Add(1)
	return connection, nil
}

// await returns how the broker answered, or an error when -timeout or ctx ends before.
func await(ctx context.Context, ask func() mqtt.Token) error {
	answer := make(chan error, 1)
	go func() {
		token := ask()
		token.Wait()
		answer <- token.Error()
	}()
	select {
	case err := <-answer:
		return err
	case <-time.After(*timeout):
		return fmt.Errorf("no answer within -timeout %s", *timeout)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// payload begins with the sequence number and a space, by which the subscriber recognises it.
func payload(sequence int) []byte {
	head := strconv.Itoa(sequence) + " "
	switch {
	case *constantPayload != "":
		return []byte(*constantPayload)
	case *maxChars == 0:
		return []byte(head + "message of the flood")
	}
	length := *minChars + rand.Intn(*maxChars-*minChars+1)
	return append([]byte(head), bytes.Repeat([]byte{'x'}, max(0, length-len(head)))...)
}
