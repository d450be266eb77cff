package main

import (
	"bytes"
	"math/rand"
	"strconv"
)

const (
	maxPayloadBytes = 1 << 20
	filler          = "message of the flood"
)

// payloadMaker returns the payload of one message.
type payloadMaker func(sequence int) []byte

// sequenceText is the head of every numbered payload: what the subscriber recognises a message by.
func sequenceText(sequence int) string {
	return strconv.Itoa(sequence) + " "
}

func newPayloadMaker(o options) payloadMaker {
	if o.constantPayload != "" {
		constant := []byte(o.constantPayload)
		return func(int) []byte { return constant }
	}
	if o.maxChars > 0 {
		return func(sequence int) []byte {
			return paddedPayload(sequence, o.minChars+rand.Intn(o.maxChars-o.minChars+1))
		}
	}
	return func(sequence int) []byte { return []byte(sequenceText(sequence) + filler) }
}

func paddedPayload(sequence, length int) []byte {
	head := sequenceText(sequence)
	return append([]byte(head), bytes.Repeat([]byte{'x'}, length-len(head))...)
}

// parseSequence reads a sequence number back; ok is false for anything this flood did not write.
func parseSequence(payload []byte) (sequence int, ok bool) {
	end := bytes.IndexByte(payload, ' ')
	if end < 1 {
		return 0, false
	}
	sequence, err := strconv.Atoi(string(payload[:end]))
	return sequence, err == nil && sequence >= 0
}
