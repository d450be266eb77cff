// mochi: the broker of the Go library github.com/mochi-mqtt/server, set up as the lab's mosquitto is.
//
//	mochi           serve MQTT on port 1883, with TCP_NODELAY (on, off) or, where that is empty, as FIDELITY sets it
//	mochi healthy   exit code 0 if the broker on this machine accepts a connection
package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

const (
	port     = ":1883"
	patience = 3 * time.Second
	wrongUse = 2
)

// Go sets TCP_NODELAY on each connection that it accepts.
type listener struct {
	net.Listener
	noDelay bool
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetNoDelay(l.noDelay)
	}
	return conn, err
}

// broker returns a broker that admits everybody, with the limits of compose/mosquitto as far as it has them.
func broker(log *slog.Logger) (*mqtt.Server, error) {
	limits := mqtt.NewDefaultServerCapabilities()
	// As mosquitto's max_queued_messages: messages that wait for one client, and those that it has not confirmed.
	limits.MaximumClientWritesPending = 1000
	limits.MaximumInflight = 1000
	// mosquitto has 20 in flight; here a publisher with more is disconnected, so that it stays at the library's 1024.
	server := mqtt.New(&mqtt.Options{Capabilities: limits, Logger: log})
	return server, server.AddHook(new(auth.AllowHook), nil)
}

func serve(on net.Listener, log *slog.Logger) error {
	server, err := broker(log)
	if err != nil {
		return err
	}
	if err := server.AddListener(listeners.NewNet("tcp", on)); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	if err := server.Serve(); err != nil {
		return err
	}
	<-stop
	return server.Close()
}

// healthy exchanges CONNECT and CONNACK with the broker at address.
func healthy(address string) error {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	answer := make([]byte, 4)
	if _, err = conn.Write([]byte("\x10\x0c\x00\x04MQTT\x04\x02\x00\x05\x00\x00")); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil && answer[3] != 0 {
		err = fmt.Errorf("the broker refused the connection: code %d", answer[3])
	}
	return err
}

func run(arguments []string) (int, error) {
	if len(arguments) > 0 && arguments[0] == "healthy" {
		return 1, healthy("localhost" + port)
	}
	word := cmp.Or(os.Getenv("TCP_NODELAY"), os.Getenv("FIDELITY"), "thesis")
	noDelay, known := map[string]bool{"printed": false, "thesis": false, "off": false, "corrected": true, "on": true}[word]
	if !known {
		return wrongUse, fmt.Errorf("TCP_NODELAY or FIDELITY is %q: expected on or off, printed, thesis or corrected", word)
	}
	on, err := net.Listen("tcp", port)
	if err != nil {
		return 1, err
	}
	// Errors alone: neither a message nor a client that comes and goes writes a line.
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelError}))
	fmt.Println("mochi", mqtt.Version, "TCP_NODELAY", noDelay)
	return 1, serve(listener{on, noDelay}, log)
}

func main() {
	if code, err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mochi:", err)
		os.Exit(code)
	}
}
