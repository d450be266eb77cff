package main

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// dialListener runs a listener that treats each connection as told, and returns what dialing it gives.
func dialListener(t *testing.T, treat func(net.Conn)) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			treat(c)
		}
	}()
	o, err := parseOptions([]string{"-broker", "tcp://" + listener.Addr().String(), "-timeout", "300ms"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newDialer(o)(t.Context(), "test")
	return err
}

func TestSomethingThatHangsUpIsNoBroker(t *testing.T) {
	err := dialListener(t, func(c net.Conn) { c.Close() })
	if err == nil || strings.Contains(err.Error(), "nil") {
		t.Errorf("dialing gave %v", err)
	}
}

func TestSomethingThatKeepsSilentTimesOut(t *testing.T) {
	begun := time.Now()
	err := dialListener(t, func(c net.Conn) { t.Cleanup(func() { c.Close() }) })
	if !errors.Is(err, errTimedOut) || time.Since(begun) > 3*time.Second {
		t.Errorf("dialing gave %v after %s", err, time.Since(begun))
	}
}
