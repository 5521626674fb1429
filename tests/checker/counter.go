package main

import (
	"fmt"
	"sort"

	"github.com/anishathalye/porcupine"
)

// A counter is a register that is compared and set. A change that was acknowledged took effect, one
// that was refused with the current value saw that value, and one of unknown outcome took effect if
// anybody ever saw its value: every change sets a value of its own.

type counterOperation struct {
	change   bool
	expected int
	new      int
	value    int // What was read; of a change, what it was refused with.
	refused  bool
	text     string
}

func (op *counterOperation) step(value int) (bool, int) {
	if op.change && !op.refused {
		return value == op.expected, op.new
	}
	return value == op.value && !(op.refused && value == op.expected), value
}

func counterObjects(h *history) []object {
	seen := map[string]map[int]bool{}
	see := func(counter string, value int) {
		if seen[counter] == nil {
			seen[counter] = map[int]bool{}
		}
		seen[counter][value] = true
	}
	for _, each := range h.tries {
		see(each.Counter, each.Expected)
		if each.Current != nil {
			see(each.Counter, *each.Current)
		}
	}
	operations := map[string][]porcupine.Operation{}
	for _, each := range h.counterReads {
		see(each.Counter, each.Value)
		op := &counterOperation{value: each.Value, text: fmt.Sprintf("read %d", each.Value)}
		operations[each.Counter] = append(operations[each.Counter], porcupine.Operation{
			Input: op, Call: each.Sent.ns(), Return: each.Answered.ns(),
		})
	}
	for _, each := range h.tries {
		op := &counterOperation{change: true, expected: each.Expected, new: each.New}
		op.text = fmt.Sprintf("%d to %d, %s", each.Expected, each.New, each.Outcome)
		switch {
		case each.Outcome == unknown && !seen[each.Counter][each.New]:
			continue // Whether it took effect makes no difference.
		case each.Outcome == notDone && each.Current == nil:
			continue
		case each.Outcome == notDone:
			op.refused, op.value = true, *each.Current
			op.text += fmt.Sprintf(", it is at %d", op.value)
		}
		operations[each.Counter] = append(operations[each.Counter], porcupine.Operation{
			Input: op, Call: each.Sent.ns(), Return: returned(each.Outcome, each.Answered),
		})
	}
	var objects []object
	for name, found := range operations {
		objects = append(objects, object{name: "counter " + name, model: counterModel, operations: found})
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].name < objects[j].name })
	return objects
}

var counterModel = porcupine.Model{
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		ok, next := input.(*counterOperation).step(state.(int))
		return ok, next
	},
	DescribeOperation: func(input, _ any) string { return input.(*counterOperation).text },
	DescribeState:     func(state any) string { return fmt.Sprint(state) },
}
