package main

import (
	"fmt"
	"hash/fnv"
	"sort"

	"github.com/anishathalye/porcupine"
)

// The log of one partition is an append-only list. An append that was acknowledged took effect once,
// at the offset of its answer; one that was refused never does (it is left out, so what reads show
// of it belongs to nobody); one of unknown outcome takes effect where a read shows it, at any time
// after it was sent, or never. A message with an id is stored once. The messages of a key are stored
// in the order they were sent, but for those whose callers gave up: a publisher then sends the next
// while the request may still be on its way. Nothing is stored after a seal. A read shows what is
// stored; where it names the end, that was the end at some moment while it was read.

type logAction int

const (
	logAppend logAction = iota
	logRead
	logSeal
)

type place struct {
	offset  int
	payload int
}

type logOperation struct {
	action    logAction
	payload   int
	key       int // -1: none
	turn      int // Of the publishes of its key.
	id        int // -1: none
	duplicate bool
	outcome   string
	offset    int
	shown     map[int]bool // Offsets where reads show a publish of unknown outcome.
	places    []place
	end       int // -1: the read does not name it.
	text      string
}

type logState struct {
	next    int
	sealed  bool
	content vector // Offset → payload.
	keys    vector // Key → the turn of its last message.
	ids     vector // Id → offset.
	print   uint64 // Of the content in order.
}

func (s logState) holds(places []place) bool {
	for _, each := range places {
		found, ok := s.content.get(each.offset)
		if !ok || found != each.payload {
			return false
		}
	}
	return true
}

func (s logState) append(op *logOperation) (bool, logState) {
	if s.sealed {
		return false, s
	}
	if op.id >= 0 {
		if _, known := s.ids.get(op.id); known {
			return false, s
		}
		s.ids = s.ids.with(op.id, s.next)
	}
	if op.key >= 0 {
		if last, known := s.keys.get(op.key); known && last >= op.turn {
			return false, s
		}
		s.keys = s.keys.with(op.key, op.turn)
	}
	s.content = s.content.with(s.next, op.payload)
	sum := fnv.New64a()
	fmt.Fprint(sum, s.print, s.next, op.payload)
	s.print = sum.Sum64()
	s.next++
	return true, s
}

func (s logState) step(op *logOperation) (bool, logState) {
	switch op.action {
	case logRead:
		return (op.end < 0 || op.end == s.next) && s.holds(op.places), s
	case logSeal:
		if op.outcome == done && op.end != s.next {
			return false, s
		}
		s.sealed = true
		return true, s
	}
	if op.outcome == unknown {
		return s.perhaps(op)
	}
	if op.duplicate {
		at, known := s.ids.get(op.id)
		return known && at == op.offset, s
	}
	if s.next != op.offset {
		return false, s
	}
	return s.append(op)
}

// perhaps is an append whose outcome nobody knows. Where reads show its message it may take effect;
// past all of these places it did not, or it was stored by the same id before.
func (s logState) perhaps(op *logOperation) (bool, logState) {
	if _, known := s.ids.get(op.id); known {
		return true, s
	}
	if op.shown[s.next] {
		return s.append(op)
	}
	for offset := range op.shown {
		if offset > s.next {
			return false, s
		}
	}
	return true, s
}

func logModel(first logState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, input, _ any) (bool, any) {
			ok, next := state.(logState).step(input.(*logOperation))
			return ok, next
		},
		Equal: func(one, other any) bool {
			a, b := one.(logState), other.(logState)
			return a.next == b.next && a.sealed == b.sealed && a.print == b.print
		},
		Hash: func(state any) uint64 { return state.(logState).print },
		DescribeOperation: func(input, _ any) string {
			return input.(*logOperation).text
		},
		DescribeState: func(state any) string {
			s := state.(logState)
			if s.sealed {
				return fmt.Sprintf("sealed at %d", s.next)
			}
			return fmt.Sprintf("next offset %d", s.next)
		},
	}
}

// Names gives equal texts equal small numbers.
type names map[string]int

func (n names) number(text string) int {
	if found, ok := n[text]; ok {
		return found
	}
	n[text] = len(n)
	return n[text]
}

type logName struct {
	topic     string
	partition int
}

func (n logName) String() string { return fmt.Sprintf("log %s/%d", n.topic, n.partition) }

type logBuilder struct {
	operations []porcupine.Operation
	shown      map[int]map[int]bool  // Payload → offsets.
	whole      []porcupine.Operation // Reads of everything, from offset 0 to the end.
	sealed     bool
}

type logsBuilder struct {
	payloads, keys, ids names
	logs                map[logName]*logBuilder
	judged              map[string]bool // Topics that were read by offset.
	topicOf             map[string]string
}

// logObjects are the logs of every topic that the history has reads of. Those of a topic that was
// only published to are not judged: nothing says what is at the offsets of unknown outcomes.
func logObjects(h *history) []object {
	b := &logsBuilder{
		payloads: names{}, keys: names{}, ids: names{},
		logs:   map[logName]*logBuilder{},
		judged: map[string]bool{}, topicOf: map[string]string{},
	}
	for _, each := range h.reads {
		b.judged[each.Topic] = true
	}
	for _, each := range h.subscriptions {
		b.topicOf[each.Name] = each.Topic
	}
	for _, each := range h.reads {
		b.addRead(each)
	}
	b.addDeliveries(h.deliveries)
	for _, each := range h.seals {
		if b.judged[each.Topic] {
			b.addSeal(each)
		}
	}
	b.addPublishes(h.publishes)
	var objects []object
	for name, log := range b.logs {
		objects = append(objects, log.split(name)...)
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].name < objects[j].name })
	return objects
}

func (b *logsBuilder) log(topic string, partition int) *logBuilder {
	name := logName{topic, partition}
	if b.logs[name] == nil {
		b.logs[name] = &logBuilder{shown: map[int]map[int]bool{}}
	}
	return b.logs[name]
}

func (l *logBuilder) show(payload, offset int) {
	if l.shown[payload] == nil {
		l.shown[payload] = map[int]bool{}
	}
	l.shown[payload][offset] = true
}

func (l *logBuilder) add(op *logOperation, sent seconds, returns int64) {
	l.operations = append(l.operations, porcupine.Operation{
		Input: op, Call: sent.ns(), Return: returns,
	})
}

func (b *logsBuilder) addRead(each read) {
	log := b.log(each.Topic, each.Partition)
	op := &logOperation{action: logRead, end: each.End}
	for index, payload := range each.Payloads {
		offset, number := each.First+index, b.payloads.number(payload)
		op.places = append(op.places, place{offset, number})
		log.show(number, offset)
	}
	op.text = fmt.Sprintf("read %d to %d, end %d", each.First, each.First+len(each.Payloads), each.End)
	log.add(op, each.Sent, each.Answered.ns())
	if each.First == 0 && each.End == len(each.Payloads) {
		log.whole = append(log.whole, log.operations[len(log.operations)-1])
	}
}

// addDeliveries takes what one pull was answered of a partition for one read of it.
func (b *logsBuilder) addDeliveries(deliveries []delivery) {
	type pull struct {
		subscription string
		partition    int
		pulled, got  seconds
	}
	pulls := map[pull]*logOperation{}
	for _, each := range deliveries {
		topic := b.topicOf[each.Subscription]
		if !b.judged[topic] {
			continue
		}
		log := b.log(topic, each.Partition)
		number := b.payloads.number(each.Payload)
		log.show(number, each.Offset)
		name := pull{each.Subscription, each.Partition, each.Pulled, each.Got}
		op := pulls[name]
		if op == nil {
			op = &logOperation{action: logRead, end: -1}
			op.text = fmt.Sprintf("pull of %s with offset %d …", each.Subscription, each.Offset)
			pulls[name] = op
			log.add(op, each.Pulled, each.Got.ns())
		}
		op.places = append(op.places, place{each.Offset, number})
	}
}

func (b *logsBuilder) addSeal(each seal) {
	if each.Outcome == notDone {
		return
	}
	op := &logOperation{action: logSeal, outcome: each.Outcome, end: each.End}
	op.text = fmt.Sprintf("seal at %d, %s", each.End, each.Outcome)
	log := b.log(each.Topic, each.Partition)
	log.sealed = true
	log.add(op, each.Sent, returned(each.Outcome, each.Answered))
}

func (b *logsBuilder) addPublishes(publishes []publish) {
	inOrder := append([]publish(nil), publishes...)
	sort.SliceStable(inOrder, func(i, j int) bool { return inOrder[i].Sent < inOrder[j].Sent })
	for turn, each := range inOrder {
		if !b.judged[each.Topic] || each.Outcome == notDone {
			continue
		}
		op := &logOperation{
			payload: b.payloads.number(each.Payload), key: -1, turn: turn, id: -1,
			outcome: each.Outcome, offset: each.Offset, duplicate: each.Duplicate,
		}
		op.text = fmt.Sprintf("publish %s", each.Payload)
		if each.Key != nil && !each.Abandoned {
			op.key = b.keys.number(each.Topic + "\x00" + *each.Key)
			op.text += fmt.Sprintf(" of %s", *each.Key)
		}
		if each.ID != "" {
			op.id = b.ids.number(each.Topic + "\x00" + each.ID)
			op.text += fmt.Sprintf(" with id %s", each.ID)
		}
		partition := each.Partition
		if each.Outcome == unknown {
			partition = b.partitionOf(each, op.payload)
			if partition < 0 {
				continue // No read shows it: whether it is stored makes no difference.
			}
			op.shown = b.log(each.Topic, partition).shown[op.payload]
			op.text += ": unknown"
		} else {
			op.text += fmt.Sprintf(": %d", each.Offset)
		}
		b.log(each.Topic, partition).add(
			op, each.Sent, returned(each.Outcome, each.Answered))
	}
}

// partitionOf is the first partition whose reads show the message. A publish is stored in one
// partition: a copy in another is nobody's, and refused there.
func (b *logsBuilder) partitionOf(each publish, payload int) int {
	found := -1
	for name, log := range b.logs {
		if name.topic == each.Topic && len(log.shown[payload]) > 0 && (found < 0 || name.partition < found) {
			found = name.partition
		}
	}
	return found
}

// split cuts the history of a log at reads of the whole of it during which nothing else was under
// way: by then every operation before has taken effect, and every later one has not, so that both
// sides can be judged by themselves. The search needs memory by the square of its operations.
func (l *logBuilder) split(name logName) []object {
	if len(l.whole) == 0 {
		return []object{{name: name.String(), missing: "no read of the whole log"}}
	}
	cuts := l.cuts()
	segments := make([][]porcupine.Operation, len(cuts)+1)
	for _, each := range l.operations {
		at := l.segmentOf(each, cuts)
		segments[at] = append(segments[at], each)
	}
	var objects []object
	first := logState{}
	for index, operations := range segments {
		if index > 0 {
			first = l.stateAt(cuts[index-1])
		}
		if len(operations) > 0 {
			title := name.String()
			if len(segments) > 1 {
				title += fmt.Sprintf(" from offset %d", first.next)
			}
			objects = append(objects, object{name: title, model: logModel(first), operations: operations})
		}
	}
	return objects
}

func (l *logBuilder) cuts() []porcupine.Operation {
	var found []porcupine.Operation
	if l.sealed {
		return found
	}
	sort.Slice(l.whole, func(i, j int) bool { return l.whole[i].Call < l.whole[j].Call })
	for _, cut := range l.whole {
		if l.isQuiet(cut) {
			found = append(found, cut)
		}
	}
	return found
}

func (l *logBuilder) isQuiet(cut porcupine.Operation) bool {
	for _, each := range l.operations {
		op := each.Input.(*logOperation)
		free := each.Return == never || op.end < 0 && op.action == logRead || op == cut.Input
		if !free && each.Return >= cut.Call && each.Call <= cut.Return {
			return false
		}
	}
	return true
}

// segmentOf is the number of cuts before an operation. One of unknown outcome is where a read shows
// it first; a read that spans a cut and names no end is as true after it.
func (l *logBuilder) segmentOf(each porcupine.Operation, cuts []porcupine.Operation) int {
	op := each.Input.(*logOperation)
	for index, cut := range cuts {
		if each.Return == never {
			for offset := range op.shown {
				if offset < cut.Input.(*logOperation).end {
					return index
				}
			}
		} else if each.Return < cut.Call || op == cut.Input {
			return index
		}
	}
	return len(cuts)
}

func (l *logBuilder) stateAt(cut porcupine.Operation) logState {
	publishes := map[int]*logOperation{}
	for _, each := range l.operations {
		if op := each.Input.(*logOperation); op.action == logAppend {
			publishes[op.payload] = op
		}
	}
	state := logState{}
	for _, each := range cut.Input.(*logOperation).places {
		op := publishes[each.payload]
		if op == nil {
			op = &logOperation{payload: each.payload, key: -1, id: -1}
		}
		_, state = state.append(op)
	}
	return state
}
