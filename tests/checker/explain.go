package main

import (
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	mostPending = 10
	// A picture shows so many operations before the one that does not fit: of thousands nobody finds it.
	mostDrawn = 100
)

func longestOrder(info porcupine.LinearizationInfo) []porcupine.Operation {
	var longest []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	return longest
}

// after is the state once these operations took effect, and what must have one before any other
// operation returns.
func (o *object) after(order []porcupine.Operation) (any, []porcupine.Operation) {
	state, taken := o.model.Init(), map[any]bool{}
	for _, each := range order {
		_, state = o.model.Step(state, each.Input, each.Output)
		taken[each.Input] = true
	}
	var rest, pending []porcupine.Operation
	first := int64(math.MaxInt64)
	for _, each := range o.operations {
		if !taken[each.Input] {
			rest = append(rest, each)
			first = min(first, each.Return)
		}
	}
	for _, each := range rest {
		if each.Call <= first {
			pending = append(pending, each)
		}
	}
	sort.SliceStable(pending, func(i, j int) bool { return pending[i].Return < pending[j].Return })
	return state, pending
}

// draw shows the end of the longest order and what does not fit after it.
func (o *object) draw(order []porcupine.Operation, timeout time.Duration, path string) {
	cut := max(0, len(order)-mostDrawn)
	state, _ := o.after(order[:cut])
	_, pending := o.after(order)
	shown := inLanes(append(append([]porcupine.Operation(nil), order[cut:]...), pending...))
	model := o.model
	model.Init = func() any { return state }
	_, info := porcupine.CheckOperationsVerbose(model, shown, timeout)
	file, err := os.Create(path)
	if err == nil {
		err = porcupine.Visualize(model, info, file)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		fmt.Printf("  no picture: %v\n", err)
		return
	}
	fmt.Printf("  picture: %s\n", path)
}

// inLanes gives operations that overlap different clients, for those are lines of the picture. One
// that never returned ends where the picture does.
func inLanes(operations []porcupine.Operation) []porcupine.Operation {
	sort.SliceStable(operations, func(i, j int) bool { return operations[i].Call < operations[j].Call })
	end := int64(0)
	for _, each := range operations {
		end = max(end, each.Call)
		if each.Return != never {
			end = max(end, each.Return)
		}
	}
	var lanes []int64
	for index := range operations {
		each := &operations[index]
		each.Return = min(each.Return, end+1)
		for each.ClientId = 0; each.ClientId < len(lanes); each.ClientId++ {
			if lanes[each.ClientId] < each.Call {
				break
			}
		}
		if each.ClientId == len(lanes) {
			lanes = append(lanes, 0)
		}
		lanes[each.ClientId] = each.Return
	}
	return operations
}
