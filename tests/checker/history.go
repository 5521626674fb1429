package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// The version of the format that this program reads; the first line of a file names its own.
const historyVersion = 1

// What a consumer did with a delivery, or learnt of its message.
const (
	acked      = "ack"
	nacked     = "nack"
	foundAcked = "found_acked"
)

// Outcomes, as callers were told.
const (
	done    = "acked"
	notDone = "not_done"
	unknown = "unknown"
)

// Times are seconds of one clock that never goes back; an answer at 0 never came.
type seconds float64

func (s seconds) ns() int64 { return int64(math.Round(float64(s) * 1e9)) }

// never is when an operation returns whose outcome nobody knows: it may take effect at any time.
const never = int64(math.MaxInt64)

func returned(outcome string, answered seconds) int64 {
	if outcome == unknown {
		return never
	}
	return answered.ns()
}

// Every record names its kind, which is looked at before it is decoded.
type tagged struct {
	Kind string `json:"kind"`
}

type publish struct {
	tagged
	Topic     string  `json:"topic"`
	Payload   string  `json:"payload"`
	Key       *string `json:"key"`
	ID        string  `json:"id"`
	Sent      seconds `json:"sent_s"`
	Answered  seconds `json:"answered_s"`
	Outcome   string  `json:"outcome"`
	Partition int     `json:"partition"`
	Offset    int     `json:"offset"`
	Duplicate bool    `json:"duplicate"`
	Reason    string  `json:"reason"`
	Abandoned bool    `json:"abandoned"`
}

type read struct {
	tagged
	Topic     string   `json:"topic"`
	Partition int      `json:"partition"`
	Sent      seconds  `json:"sent_s"`
	Answered  seconds  `json:"answered_s"`
	First     int      `json:"first"`
	Payloads  []string `json:"payloads"`
	End       int      `json:"end"`
}

type seal struct {
	tagged
	Topic     string  `json:"topic"`
	Partition int     `json:"partition"`
	Sent      seconds `json:"sent_s"`
	Answered  seconds `json:"answered_s"`
	Outcome   string  `json:"outcome"`
	End       int     `json:"end"`
}

type subscription struct {
	tagged
	Name        string  `json:"name"`
	Topic       string  `json:"topic"`
	Delivery    string  `json:"delivery"`
	AckDeadline seconds `json:"ack_deadline_s"`
}

// An act is what a consumer did with a delivery, or learnt of it.
type act struct {
	What     string  `json:"what"`
	Sent     seconds `json:"sent_s"`
	Answered seconds `json:"answered_s"`
	Outcome  string  `json:"outcome"`
}

type delivery struct {
	tagged
	Subscription string  `json:"subscription"`
	Partition    int     `json:"partition"`
	Offset       int     `json:"offset"`
	Payload      string  `json:"payload"`
	MessageID    string  `json:"message_id"`
	Lease        string  `json:"lease"`
	Pulled       seconds `json:"pulled_s"`
	Got          seconds `json:"got_s"`
	Acts         []act   `json:"acts"`
}

// A lapse is a moment at which leases may have been lost with the process that held them.
type lapse struct {
	tagged
	At seconds `json:"at_s"`
}

// Drained says that everything the subscription had by then is settled.
type drained struct {
	tagged
	Subscription string  `json:"subscription"`
	At           seconds `json:"at_s"`
}

type counterTry struct {
	tagged
	Counter  string  `json:"counter"`
	Expected int     `json:"expected"`
	New      int     `json:"new"`
	Sent     seconds `json:"sent_s"`
	Answered seconds `json:"answered_s"`
	Outcome  string  `json:"outcome"`
	Current  *int    `json:"current"`
}

type counterRead struct {
	tagged
	Counter  string  `json:"counter"`
	Sent     seconds `json:"sent_s"`
	Answered seconds `json:"answered_s"`
	Value    int     `json:"value"`
}

// A word of a record that has no meaning here, or nothing.

func (p publish) unknownWord() string    { return oneOf(p.Outcome, done, notDone, unknown) }
func (s seal) unknownWord() string       { return oneOf(s.Outcome, done, notDone, unknown) }
func (t counterTry) unknownWord() string { return oneOf(t.Outcome, done, notDone, unknown) }

func (s subscription) unknownWord() string {
	return oneOf(s.Delivery, atLeastOnce, exactlyOnce, atMostOnce)
}

func (d delivery) unknownWord() string {
	for _, each := range d.Acts {
		if word := oneOf(each.Outcome, done, notDone, unknown); word != "" {
			return word
		}
		if word := oneOf(each.What, acked, nacked, foundAcked); word != "" {
			return word
		}
	}
	return ""
}

func oneOf(word string, known ...string) string {
	if slices.Contains(known, word) {
		return ""
	}
	return word
}

type history struct {
	publishes     []publish
	reads         []read
	seals         []seal
	subscriptions []subscription
	deliveries    []delivery
	lapses        []lapse
	drained       []drained
	tries         []counterTry
	counterReads  []counterRead
}

// readHistory refuses what it does not know, so that no record is passed over.
func readHistory(from io.Reader) (*history, error) {
	lines := bufio.NewReaderSize(from, 1<<20)
	found := &history{}
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if bad := found.take(line, number); bad != nil {
				return nil, fmt.Errorf("line %d: %w", number, bad)
			}
		}
		if err == io.EOF && number > 1 {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
}

func (h *history) take(line []byte, number int) error {
	var head struct {
		Kind    string `json:"kind"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	if number == 1 {
		if head.Kind != "history" || head.Version != historyVersion {
			return fmt.Errorf("%s, version %d; a history of version %d is read", head.Kind, head.Version, historyVersion)
		}
		return nil
	}
	switch head.Kind {
	case "publish":
		return into(&h.publishes, line)
	case "read":
		return into(&h.reads, line)
	case "seal":
		return into(&h.seals, line)
	case "subscription":
		return into(&h.subscriptions, line)
	case "delivery":
		return into(&h.deliveries, line)
	case "lapse":
		return into(&h.lapses, line)
	case "drained":
		return into(&h.drained, line)
	case "counter_try":
		return into(&h.tries, line)
	case "counter_read":
		return into(&h.counterReads, line)
	}
	return fmt.Errorf("kind %q is not known", head.Kind)
}

func into[T any](list *[]T, line []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var one T
	if err := decoder.Decode(&one); err != nil {
		return err
	}
	if words, ok := any(one).(interface{ unknownWord() string }); ok && words.unknownWord() != "" {
		return fmt.Errorf("%q is not known", words.unknownWord())
	}
	*list = append(*list, one)
	return nil
}
