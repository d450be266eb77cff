package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// setOptions gives every flag its default, then sets those of a command line.
func setOptions(t *testing.T, line string) {
	t.Helper()
	flag.VisitAll(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			_ = f.Value.Set(f.DefValue)
		}
	})
	if err := flag.CommandLine.Parse(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
}

func TestPublishedCommandLine(t *testing.T) {
	setOptions(t, "-broker tcp://broker:1883 -num-clients 100 -num-messages 10 "+
		"-rampup-delay 1s -rampup-size 10 -global-timeout 180s -timeout 20s")
	if err := checkOptions(); err != nil {
		t.Error(err)
	}
}

func TestWrongUseNamesTheFlag(t *testing.T) {
	for line, name := range map[string]string{
		"-num-clients 1":                                     "-broker",
		"-broker ssl://broker:8883":                          "tcp://host:1883",
		"-broker tcp://b:1 -num-clients 0":                   "-num-clients",
		"-broker tcp://b:1 -num-messages -1":                 "-num-messages",
		"-broker tcp://b:1 -rampup-size 0":                   "-rampup-size",
		"-broker tcp://b:1 -publisher-qos 3":                 "-publisher-qos",
		"-broker tcp://b:1 -subscriber-qos -1":               "-subscriber-qos",
		"-broker tcp://b:1 -status-interval 0s":              "-status-interval",
		"-broker tcp://b:1 -min-msg-chars 9":                 "-min-msg-chars",
		"-broker tcp://b:1 -topic-base-path a/#":             "-topic-base-path",
		"-broker tcp://b:1 -topic-base-path request/x":       "none below request",
		"-broker tcp://b:1 -constant-payload @/no-such-file": "no-such-file",
		"-broker tcp://b:1 stray":                            "stray",
	} {
		setOptions(t, line)
		if err := checkOptions(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: the error %v does not name %s", line, err, name)
		}
	}
}

func TestAProgramGetsTheOptionsThatItKnows(t *testing.T) {
	setOptions(t, "-num-clients 3 -timeout 100s -repeat -program /bin/true -status-interval 1s")
	given := programOptions()
	for _, wanted := range []string{"-num-clients=3", "-timeout=1m40s"} {
		if !slices.Contains(given, wanted) {
			t.Errorf("%v lacks %s", given, wanted)
		}
	}
	if line := strings.Join(given, " "); strings.Contains(line, "-repeat") || strings.Contains(line, "-program") || strings.Contains(line, "-status") {
		t.Errorf("%v has options of the lab's own", given)
	}
}

func TestARoundThatHangsHoldsUpNoOther(t *testing.T) {
	script := filepath.Join(t.TempDir(), "mqtt-stresser")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	setOptions(t, "-no-progress -num-clients 1 -rampup-delay 100ms -program "+script)
	ctx, cancel := context.WithCancel(context.Background())
	f := &flood{begun: time.Now()}
	for range 2 {
		if err := f.round(ctx); err != nil {
			t.Error(err)
		}
	}
	cancel()
	f.programs.Wait()
	if took := time.Since(f.begun); took > 20*time.Second {
		t.Errorf("two rounds of a second took %s", took)
	}
}

type message struct {
	mqtt.Message
	payload []byte
}

func (m message) Payload() []byte { return m.payload }

// receiving returns the counts of a client to which these messages came.
func receiving(payloads ...[]byte) *client {
	c := newClient(&flood{})
	for _, payload := range payloads {
		c.arrived(nil, message{payload: payload})
	}
	return c
}

func TestLostDuplicateAndForeignMessages(t *testing.T) {
	for _, sizes := range []string{"", " -min-msg-chars 1 -max-msg-chars 300"} {
		setOptions(t, "-no-progress -num-messages 4"+sizes)
		c := receiving(payload(0), payload(2), payload(2), []byte("not ours"), []byte("4 x"), []byte("-1 x"), []byte("7"), payload(3))
		if r, d, f := c.received.Load(), c.duplicates.Load(), c.foreign.Load(); r != 3 || d != 1 || f != 4 {
			t.Errorf("%d received, %d duplicates, %d foreign", r, d, f)
		}
		if missing := c.missing.Load(); missing != 5 {
			t.Errorf("%d missing: four confirmations and message 1", missing)
		}
	}
}

func TestConstantPayloadIsCountedByArrival(t *testing.T) {
	setOptions(t, "-no-progress -num-messages 2 -constant-payload same")
	c := receiving(payload(0), payload(1), payload(0))
	if r, d := c.received.Load(), c.duplicates.Load(); r != 2 || d != 1 {
		t.Errorf("%d received, %d duplicates", r, d)
	}
}
