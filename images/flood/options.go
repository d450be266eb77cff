package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// Every topic of the flood lies below this, apart from the lab's own request/, answer/ and lab/.
const defaultTopicBase = "internal/looplab-flood"

// repeatVariable sets -repeat from outside the command line, so that one command line serves mqtt-stresser and the flood.
const repeatVariable = "FLOOD_REPEAT"

// labTopics are what the control loop speaks on: a flood there would be counted as its malformed messages.
var labTopics = []string{"request", "answer", "lab", "$SYS"}

// options hold one checked command line.
type options struct {
	broker               string
	numClients           int
	numMessages          int
	timeout              time.Duration
	globalTimeout        time.Duration
	rampUpSize           int
	rampUpDelay          time.Duration
	pauseBetweenMessages time.Duration
	username             string
	password             string
	publisherQoS         int
	subscriberQoS        int
	constantPayload      string
	minChars             int
	maxChars             int
	topicBase            string
	logLevel             int
	quiet                bool
	json                 bool
	statusInterval       time.Duration
	repeat               bool
	repeatPause          time.Duration
	repeatLimit          time.Duration
}

// newFlagSet declares the flags: mqtt-stresser's names and defaults first, then the lab's own.
func newFlagSet(o *options, output io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("flood", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.broker, "broker", "", "broker `URL`, as tcp://host:port")
	flags.IntVar(&o.numClients, "num-clients", 10, "clients, each a publisher and a subscriber on a topic of its own")
	flags.IntVar(&o.numMessages, "num-messages", 10, "messages that each client publishes")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Second, "longest wait for a connection, an acknowledgement or the next message")
	flags.DurationVar(&o.globalTimeout, "global-timeout", 60*time.Second, "longest time for a whole round")
	flags.IntVar(&o.rampUpSize, "rampup-size", 100, "clients started at once")
	flags.DurationVar(&o.rampUpDelay, "rampup-delay", 500*time.Millisecond, "pause between two batches of clients")
	flags.DurationVar(&o.pauseBetweenMessages, "pause-between-messages", 0, "pause of each client after each message (0: as fast as possible)")
	flags.StringVar(&o.username, "username", "", "user name for the broker")
	flags.StringVar(&o.password, "password", "", "password for the broker")
	flags.IntVar(&o.publisherQoS, "publisher-qos", 0, "QoS of the published messages: 0, 1 or 2")
	flags.IntVar(&o.subscriberQoS, "subscriber-qos", 0, "QoS of the subscriptions: 0, 1 or 2")
	flags.StringVar(&o.constantPayload, "constant-payload", "", "the same payload in every message, or @FILE to read it (no sequence numbers then)")
	flags.IntVar(&o.minChars, "min-msg-chars", 0, "shortest payload, in bytes")
	flags.IntVar(&o.maxChars, "max-msg-chars", 0, "longest payload, in bytes")
	flags.StringVar(&o.topicBase, "topic-base-path", defaultTopicBase, "topic below which the flood publishes")
	flags.IntVar(&o.logLevel, "log-level", 0, "0 nothing, 1 errors, 2 debug, 3 both, on standard error")
	flags.BoolVar(&o.quiet, "no-progress", false, "print nothing before the summary")
	flags.BoolVar(&o.quiet, "quiet", false, "same as -no-progress")
	flags.BoolVar(&o.json, "json", false, "one JSON object a line instead of text")
	flags.DurationVar(&o.statusInterval, "status-interval", 5*time.Second, "time between two lines of progress")
	flags.BoolVar(&o.repeat, "repeat", false, "start a new round after each one, until SIGTERM or -repeat-limit; wait for a broker that is down (or "+repeatVariable+"=true)")
	flags.DurationVar(&o.repeatPause, "repeat-pause", 0, "pause between two rounds")
	flags.DurationVar(&o.repeatLimit, "repeat-limit", 2*time.Hour, "end of all rounds, so that a forgotten flood stops by itself (0: never)")
	return flags
}

// parseOptions reads a command line; flag.ErrHelp means that help was asked for and has been printed.
func parseOptions(arguments []string, output io.Writer) (options, error) {
	var o options
	flags := newFlagSet(&o, output)
	if value := os.Getenv(repeatVariable); value != "" {
		if err := flags.Set("repeat", value); err != nil {
			return o, fmt.Errorf("%s=%q: write true or false", repeatVariable, value)
		}
	}
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: every option starts with a dash, see -help", flags.Arg(0))
	}
	if err := o.check(); err != nil {
		return o, err
	}
	return o, o.loadPayload()
}

func (o *options) check() error {
	checks := []func() error{o.checkBroker, o.checkNumbers, o.checkDurations, o.checkPayloadSize, o.checkTopic}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) checkBroker() error {
	if o.broker == "" {
		return errors.New("-broker is missing: name it as -broker tcp://host:1883")
	}
	address, err := url.Parse(o.broker)
	if err != nil || (address.Scheme != "tcp" && address.Scheme != "mqtt") || address.Hostname() == "" {
		return fmt.Errorf("-broker %q is not an address this flood speaks: write tcp://host:port (TLS is not supported)", o.broker)
	}
	port := address.Port()
	if port == "" {
		port = "1883"
	}
	o.broker = "tcp://" + net.JoinHostPort(address.Hostname(), port)
	return nil
}

func (o *options) checkNumbers() error {
	for _, number := range []struct {
		name                 string
		value, least, utmost int
	}{
		{"-num-clients", o.numClients, 1, 20000},
		{"-num-messages", o.numMessages, 1, 100000000},
		{"-rampup-size", o.rampUpSize, 1, 20000},
		{"-publisher-qos", o.publisherQoS, 0, 2},
		{"-subscriber-qos", o.subscriberQoS, 0, 2},
		{"-log-level", o.logLevel, 0, 3},
	} {
		if number.value < number.least || number.value > number.utmost {
			return fmt.Errorf("%s %d is out of range: choose %d to %d", number.name, number.value, number.least, number.utmost)
		}
	}
	return nil
}

func (o *options) checkDurations() error {
	for name, value := range map[string]time.Duration{
		"-timeout": o.timeout, "-global-timeout": o.globalTimeout, "-status-interval": o.statusInterval,
	} {
		if value <= 0 {
			return fmt.Errorf("%s %s must be longer than 0", name, value)
		}
	}
	for name, value := range map[string]time.Duration{
		"-rampup-delay": o.rampUpDelay, "-pause-between-messages": o.pauseBetweenMessages,
		"-repeat-pause": o.repeatPause, "-repeat-limit": o.repeatLimit,
	} {
		if value < 0 {
			return fmt.Errorf("%s %s must not be negative", name, value)
		}
	}
	return nil
}

func (o *options) checkPayloadSize() error {
	if o.minChars == 0 && o.maxChars == 0 {
		return nil
	}
	shortest := len(sequenceText(o.numMessages - 1))
	if o.minChars < shortest || o.maxChars < o.minChars || o.maxChars > maxPayloadBytes {
		return fmt.Errorf("-min-msg-chars %d and -max-msg-chars %d: choose %d <= min <= max <= %d (the sequence number needs room)",
			o.minChars, o.maxChars, shortest, maxPayloadBytes)
	}
	return nil
}

func (o *options) checkTopic() error {
	o.topicBase = strings.TrimSuffix(o.topicBase, "/")
	if o.topicBase == "" || strings.ContainsAny(o.topicBase, "+#\x00") {
		return fmt.Errorf("-topic-base-path %q: give a topic without wildcards, such as %s", o.topicBase, defaultTopicBase)
	}
	first := strings.SplitN(o.topicBase, "/", 2)[0]
	for _, taken := range labTopics {
		if first == taken {
			return fmt.Errorf("-topic-base-path %q lies on the lab's own topics (%s): choose another, such as %s",
				o.topicBase, strings.Join(labTopics, ", "), defaultTopicBase)
		}
	}
	return nil
}

func (o *options) loadPayload() error {
	if !strings.HasPrefix(o.constantPayload, "@") {
		return nil
	}
	content, err := os.ReadFile(o.constantPayload[1:])
	if err != nil {
		return fmt.Errorf("-constant-payload: %w: name a readable file after the @", err)
	}
	o.constantPayload = string(content)
	return nil
}
