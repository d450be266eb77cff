package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// published is the command line that the lab's flood scenarios were published with.
var published = strings.Fields("-broker tcp://broker:1883 -num-clients 100 -num-messages 10 " +
	"-rampup-delay 1s -rampup-size 10 -global-timeout 180s -timeout 20s")

func TestPublishedCommandLine(t *testing.T) {
	o, err := parseOptions(published, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if o.broker != "tcp://broker:1883" || o.numClients != 100 || o.numMessages != 10 || o.rampUpSize != 10 {
		t.Errorf("read as %+v", o)
	}
	if o.rampUpDelay != time.Second || o.globalTimeout != 3*time.Minute || o.timeout != 20*time.Second {
		t.Errorf("durations read as %+v", o)
	}
	if o.repeat || o.publisherQoS != 0 || o.subscriberQoS != 0 || o.topicBase != defaultTopicBase {
		t.Errorf("defaults are %+v", o)
	}
}

func TestBrokerAddressIsCompleted(t *testing.T) {
	for given, wanted := range map[string]string{
		"tcp://broker": "tcp://broker:1883", "mqtt://broker:1999": "tcp://broker:1999", "tcp://[::1]:1": "tcp://[::1]:1",
	} {
		o, err := parseOptions([]string{"-broker", given}, &bytes.Buffer{})
		if err != nil || o.broker != wanted {
			t.Errorf("%s became %q, %v", given, o.broker, err)
		}
	}
}

func TestRepeatFromTheEnvironment(t *testing.T) {
	for value, wanted := range map[string]bool{"true": true, "1": true, "false": false, "": false} {
		t.Setenv("FLOOD_REPEAT", value)
		if o, err := parseOptions(published, &bytes.Buffer{}); err != nil || o.repeat != wanted {
			t.Errorf("%q became %v, %v", value, o.repeat, err)
		}
	}
	t.Setenv("FLOOD_REPEAT", "perhaps")
	if _, err := parseOptions(published, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "FLOOD_REPEAT") {
		t.Errorf("perhaps: %v", err)
	}
	t.Setenv("FLOOD_REPEAT", "true")
	if o, err := parseOptions(append(published, "-repeat=false"), &bytes.Buffer{}); err != nil || o.repeat {
		t.Errorf("the command line does not win: %v, %v", o.repeat, err)
	}
}

func TestHelpIsNoError(t *testing.T) {
	var output bytes.Buffer
	for _, argument := range []string{"-help", "--help", "-h"} {
		if _, err := parseOptions([]string{argument}, &output); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", argument, err)
		}
	}
	if !strings.Contains(output.String(), "-rampup-delay") {
		t.Error("help names no flag")
	}
}

func TestWrongUseNamesTheFlag(t *testing.T) {
	for name, arguments := range map[string]string{
		"-broker":          "-num-clients 1",
		"tcp://host:port":  "-broker ssl://broker:8883",
		"-broker \"x":      "-broker x",
		"-num-clients":     "-broker tcp://b -num-clients 0",
		"-num-messages":    "-broker tcp://b -num-messages -1",
		"-rampup-size":     "-broker tcp://b -rampup-size 0",
		"-publisher-qos":   "-broker tcp://b -publisher-qos 3",
		"-subscriber-qos":  "-broker tcp://b -subscriber-qos -1",
		"-timeout":         "-broker tcp://b -timeout 0s",
		"-rampup-delay":    "-broker tcp://b -rampup-delay -1s",
		"-min-msg-chars":   "-broker tcp://b -min-msg-chars 1 -max-msg-chars 9",
		"-topic-base-path": "-broker tcp://b -topic-base-path a/#",
		"own topics":       "-broker tcp://b -topic-base-path request/x",
		"stray":            "-broker tcp://b stray",
		"no-such-file":     "-broker tcp://b -constant-payload @/no-such-file",
		"not defined":      "-broker tcp://b -no-such-flag",
	} {
		_, err := parseOptions(strings.Fields(arguments), &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error %v does not say %s", arguments, err, name)
		}
	}
}

func TestPayloads(t *testing.T) {
	for sequence := range 200 {
		payload := newPayloadMaker(options{})(sequence)
		if read, ok := parseSequence(payload); !ok || read != sequence {
			t.Fatalf("%q read as %d, %v", payload, read, ok)
		}
		payload = newPayloadMaker(options{minChars: 4, maxChars: 12})(sequence)
		if read, ok := parseSequence(payload); !ok || read != sequence || len(payload) < 4 || len(payload) > 12 {
			t.Fatalf("%q read as %d, %v", payload, read, ok)
		}
	}
	for _, foreign := range []string{"", "x", "7", " 7", "-3 x", "seven x", "99999999999999999999 x"} {
		if _, ok := parseSequence([]byte(foreign)); ok {
			t.Errorf("%q was taken for a message of ours", foreign)
		}
	}
}

func TestConstantPayloadFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseOptions([]string{"-broker", "tcp://b", "-constant-payload", "@" + file}, &bytes.Buffer{})
	if err != nil || string(newPayloadMaker(o)(3)) != "from a file" {
		t.Errorf("payload %q, %v", o.constantPayload, err)
	}
}
