package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// pollInterval bounds how late a cancelled wait ends: this library's tokens offer no channel to select on.
const pollInterval = 20 * time.Millisecond

var (
	errTimedOut = errors.New("timed out")
	errNoAnswer = errors.New("the connection was closed before the broker answered")
)

// confirmation waits until the broker has taken a message over.
type confirmation func(ctx context.Context) error

// connection is one MQTT client.
type connection interface {
	subscribe(ctx context.Context, topic string, qos byte, arrived func(payload []byte)) error
	publish(topic string, qos byte, payload []byte) confirmation
	lost() <-chan error
	close()
}

// dialer opens a connection under a client identifier.
type dialer func(ctx context.Context, clientID string) (connection, error)

type pahoConnection struct {
	client  mqtt.Client
	timeout time.Duration
	ended   chan error
}

func newDialer(o options) dialer {
	return func(ctx context.Context, clientID string) (connection, error) {
		c := &pahoConnection{timeout: o.timeout, ended: make(chan error, 1)}
		c.client = mqtt.NewClient(clientOptions(o, clientID, c.ended))
		token := c.client.Connect()
		if err := wait(ctx, token, o.timeout); err != nil {
			go c.abandon(token)
			return nil, fmt.Errorf("cannot connect to %s: %w", o.broker, connectFault(err))
		}
		return c, nil
	}
}

// connectFault puts in words what this library prints as a formatting slip: the answer to CONNECT never came.
func connectFault(err error) error {
	if strings.Contains(err.Error(), "<nil>") {
		return errNoAnswer
	}
	return err
}

func clientOptions(o options, clientID string, ended chan<- error) *mqtt.ClientOptions {
	settings := mqtt.NewClientOptions()
	settings.AddBroker(o.broker)
	settings.SetClientID(clientID)
	settings.SetUsername(o.username)
	settings.SetPassword(o.password)
	settings.SetProtocolVersion(4) // MQTT 3.1.1 only: a refusal is final, not tried again as 3.1
	settings.SetCleanSession(true)
	settings.SetAutoReconnect(false) // a lost connection is counted; the next round opens a new one
	settings.SetConnectTimeout(o.timeout)
	settings.SetWriteTimeout(o.timeout)
	settings.SetConnectionLostHandler(func(_ mqtt.Client, err error) { ended <- err })
	return settings
}

func (c *pahoConnection) subscribe(ctx context.Context, topic string, qos byte, arrived func([]byte)) error {
	token := c.client.Subscribe(topic, qos, func(_ mqtt.Client, message mqtt.Message) { arrived(message.Payload()) })
	return wait(ctx, token, c.timeout)
}

func (c *pahoConnection) publish(topic string, qos byte, payload []byte) confirmation {
	token := c.client.Publish(topic, qos, false, payload)
	return func(ctx context.Context) error { return wait(ctx, token, c.timeout) }
}

func (c *pahoConnection) lost() <-chan error {
	return c.ended
}

// abandon closes a connection that comes about after nobody waits for it any more.
func (c *pahoConnection) abandon(connecting mqtt.Token) {
	if connecting.Wait() && connecting.Error() == nil {
		c.client.Disconnect(0)
	}
}

// close does not wait: this library's Disconnect can block on a connection that is just breaking.
func (c *pahoConnection) close() {
	go c.client.Disconnect(uint(pollInterval / time.Millisecond))
}

// wait polls in short slices, because a token holds its lock while it waits and could not take an error meanwhile.
func wait(ctx context.Context, token mqtt.Token, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for !token.WaitTimeout(pollInterval) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return errTimedOut
		}
	}
	return token.Error()
}
