package main

import (
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

func tcpNoDelay(t *testing.T, conn net.Conn) bool {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	value := 0
	raw.Control(func(fd uintptr) {
		value, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
	})
	if err != nil {
		t.Fatal(err)
	}
	return value != 0
}

func TestEveryAcceptedConnectionHasTcpNoDelayAsWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		on, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer on.Close()
		client, err := net.Dial("tcp", on.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		accepted, err := listener{on, wanted}.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if found := tcpNoDelay(t, accepted); found != wanted {
			t.Errorf("TCP_NODELAY is %v, wanted %v", found, wanted)
		}
	}
}

func TestTheBrokerIsHealthyOnceItServesAndNotBefore(t *testing.T) {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := on.Addr().String()
	go serve(listener{on, true}, slog.Default())
	deadline := time.Now().Add(5 * time.Second)
	for err = healthy(address); err != nil && time.Now().Before(deadline); err = healthy(address) {
	}
	if err != nil {
		t.Fatal(err)
	}
	on.Close()
	if healthy("127.0.0.1:1") == nil {
		t.Error("nobody listens on port 1, and it is healthy")
	}
}

func TestAWrongWordIsWrongUse(t *testing.T) {
	t.Setenv("TCP_NODELAY", "maybe")
	if code, err := run(nil); code != wrongUse || err == nil {
		t.Errorf("code %d, error %v", code, err)
	}
}
