package main

import (
	"fmt"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A message of a subscription is published once and delivered until it is acknowledged: no pull that
// is sent after an accepted ack was answered brings it. While a lease runs, nobody else is given the
// message; it ends at its deadline, by an accepted nack, or with the process that held it (at a
// lapse). What a consumer could not know, it may not count on: an ack of unknown outcome may have
// been made, or be made at any later time.
//
// Exactly once: of all acks of a message those of one lease are accepted, and repeats of that one are
// never refused. At most once: the message is delivered once or never.

const (
	atLeastOnce = "at_least_once"
	exactlyOnce = "exactly_once"
	atMostOnce  = "at_most_once"
)

// Leases that were given so long after a lapse may still be lost by it: of a Postgres that went, its
// clients learn some seconds later.
const lapseLasts = 20 * 1_000_000_000

type messageAction int

const (
	messagePublished messageAction = iota
	messageDelivered
	messageAcked
	messageNacked
	messageSettled // It was asked for, or said to be.
)

type messageOperation struct {
	action  messageAction
	payload string
	lease   int // Number of the delivery, from 1 on.
	outcome string
	pulled  int64
	got     int64
	text    string
}

type messageState struct {
	published bool
	acked     bool
	lease     int
	winner    int
	delivered bool
}

type messageRules struct {
	kind     string
	payload  string
	deadline int64
	leases   []messageOperation // By number, less one.
	lapses   []int64
}

// mayHaveEnded is whether a lease can be over when an answer that came at `by` was written.
func (r *messageRules) mayHaveEnded(lease int, by int64) bool {
	if lease == 0 {
		return true
	}
	pulled := r.leases[lease-1].pulled
	if by >= pulled+r.deadline {
		return true
	}
	for _, at := range r.lapses {
		if at <= by && pulled <= at+lapseLasts {
			return true
		}
	}
	return false
}

func (r *messageRules) step(s messageState, op *messageOperation) (bool, messageState) {
	switch op.action {
	case messagePublished:
		s.published = true
		return true, s
	case messageDelivered:
		return r.deliver(s, op)
	case messageAcked:
		return r.ack(s, op)
	case messageNacked:
		if s.lease == op.lease {
			s.lease = 0
		}
		return true, s
	}
	return s.acked, s
}

func (r *messageRules) deliver(s messageState, op *messageOperation) (bool, messageState) {
	if !s.published || op.payload != r.payload {
		return false, s
	}
	if r.kind == atMostOnce {
		ok := !s.delivered
		s.delivered, s.acked = true, true
		return ok, s
	}
	if s.acked || !r.mayHaveEnded(s.lease, op.got) {
		return false, s
	}
	s.lease = op.lease
	return true, s
}

func (r *messageRules) ack(s messageState, op *messageOperation) (bool, messageState) {
	wins := r.kind != exactlyOnce || s.winner == 0 || s.winner == op.lease
	if op.outcome == notDone {
		return s.winner != op.lease, s
	}
	if wins {
		s.acked, s.lease, s.winner = true, 0, op.lease
	}
	return wins || op.outcome == unknown, s
}

func (r *messageRules) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return messageState{} },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := r.step(state.(messageState), input.(*messageOperation))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string { return input.(*messageOperation).text },
		DescribeState: func(state any) string {
			s := state.(messageState)
			return fmt.Sprintf("published %t, acked %t, lease %d", s.published, s.acked, s.lease)
		},
	}
}

type messageName struct {
	subscription string
	partition    int
	offset       int
}

type message struct {
	rules      messageRules
	operations []porcupine.Operation
	known      int64 // When it was answered, or read from the log; 0: it never was.
}

func (m *message) add(op messageOperation, call, returns int64) {
	m.operations = append(m.operations, porcupine.Operation{Input: &op, Call: call, Return: returns})
}

func (m *message) knownBy(at int64) {
	if m.known == 0 || at < m.known {
		m.known = at
	}
}

// deliveryObjects are all messages of all subscriptions, each judged by itself.
func deliveryObjects(h *history) []object {
	var objects []object
	for _, each := range h.subscriptions {
		objects = append(objects, subscriptionObjects(h, each)...)
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].name < objects[j].name })
	return objects
}

func subscriptionObjects(h *history, of subscription) []object {
	var lapses []int64
	for _, each := range h.lapses {
		lapses = append(lapses, each.At.ns())
	}
	messages := map[messageName]*message{}
	at := func(partition, offset int) *message {
		name := messageName{of.Name, partition, offset}
		if messages[name] == nil {
			messages[name] = &message{rules: messageRules{
				kind: of.Delivery, deadline: of.AckDeadline.ns(), lapses: lapses,
			}}
		}
		return messages[name]
	}
	shown := map[string][]*message{}
	for _, each := range h.reads {
		for index, payload := range each.Payloads {
			if each.Topic == of.Topic {
				found := at(each.Partition, each.First+index)
				found.knownBy(each.Answered.ns())
				shown[payload] = append(shown[payload], found)
			}
		}
	}
	for _, each := range h.deliveries {
		if each.Subscription == of.Name {
			found := at(each.Partition, each.Offset)
			shown[each.Payload] = append(shown[each.Payload], found)
			found.addDelivery(each)
		}
	}
	for _, each := range h.publishes {
		op := messageOperation{action: messagePublished, payload: each.Payload}
		op.text = fmt.Sprintf("publish %s, %s", each.Payload, each.Outcome)
		places := shown[each.Payload]
		switch {
		case each.Topic != of.Topic || each.Outcome == notDone:
			continue
		case each.Outcome == done:
			places = []*message{at(each.Partition, each.Offset)}
			places[0].knownBy(each.Answered.ns())
		case len(places) > 1:
			places = places[:1]
		}
		for _, found := range places {
			found.rules.payload = each.Payload
			found.add(op, each.Sent.ns(), returned(each.Outcome, each.Answered))
		}
	}
	for _, each := range h.drained {
		for _, found := range messages {
			if each.Subscription == of.Name && found.known > 0 && found.known <= each.At.ns() {
				op := messageOperation{action: messageSettled, text: "everything is settled"}
				found.add(op, each.At.ns(), each.At.ns())
			}
		}
	}
	var objects []object
	for name, found := range messages {
		title := fmt.Sprintf("message %d/%d of %s", name.partition, name.offset, name.subscription)
		objects = append(objects, object{title, found.rules.model(), found.operations, ""})
	}
	return objects
}

func (m *message) addDelivery(each delivery) {
	op := messageOperation{
		action: messageDelivered, payload: each.Payload, lease: len(m.rules.leases) + 1,
		pulled: each.Pulled.ns(), got: each.Got.ns(),
	}
	op.text = fmt.Sprintf("delivery %d", op.lease)
	m.rules.leases = append(m.rules.leases, op)
	m.add(op, op.pulled, op.got)
	unknowns := map[string]bool{}
	for _, done := range each.Acts {
		// An act whose outcome is unknown may take effect at any time from then on: the same act,
		// sent again with the same outcome, can do nothing that the first cannot. A hundred of them
		// would have more orders than can be looked at.
		if done.Outcome == unknown {
			if unknowns[done.What] {
				continue
			}
			unknowns[done.What] = true
		}
		m.addAct(done, op.lease)
	}
}

func (m *message) addAct(each act, lease int) {
	op := messageOperation{lease: lease, outcome: each.Outcome}
	op.text = fmt.Sprintf("%s of delivery %d, %s", each.What, lease, each.Outcome)
	switch each.What {
	case acked:
		op.action = messageAcked
		if each.Outcome == notDone && m.rules.kind != exactlyOnce {
			return
		}
	case nacked:
		op.action = messageNacked
		if each.Outcome == notDone {
			return
		}
	case foundAcked:
		op.action = messageSettled
	}
	m.add(op, each.Sent.ns(), returned(each.Outcome, each.Answered))
}
