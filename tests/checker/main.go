// Checker holds a recorded history against models of what is promised, with porcupine, a public
// checker of linearizability. tests/chaos/porcupine.py builds and runs it; docs/decisions/testing.md
// describes the format of histories.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// What the process ends with.
const (
	exitOK = iota
	exitRefused
	exitUnreadable
	exitUndecided
)

// Of so many refused objects a picture is drawn and a reason is given.
const mostExplained = 3

// An object is judged by itself: a history is in order if that of each of its objects is.
type object struct {
	name       string
	model      porcupine.Model
	operations []porcupine.Operation
	missing    string // Why it cannot be judged; empty: it can.
}

func main() {
	pictures := flag.String("pictures", "", "begin of the names of the HTML files that show what was refused")
	timeout := flag.Duration("timeout", 2*time.Minute, "how long to search for an order of one object")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: checker [-pictures PREFIX] [-timeout DURATION] HISTORY")
		os.Exit(exitUnreadable)
	}
	file, err := os.Open(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitUnreadable)
	}
	found, err := readHistory(file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flag.Arg(0), err)
		os.Exit(exitUnreadable)
	}
	os.Exit(judge(found, *timeout, *pictures))
}

func judge(found *history, timeout time.Duration, pictures string) int {
	refused, undecided := 0, 0
	for _, part := range []struct {
		what    string
		objects []object
	}{
		{"logs", logObjects(found)},
		{"messages of subscriptions", deliveryObjects(found)},
		{"counters", counterObjects(found)},
	} {
		operations := 0
		for _, each := range part.objects {
			operations += len(each.operations)
			switch each.check(timeout) {
			case porcupine.Illegal:
				refused++
				if refused <= mostExplained {
					each.explain(timeout, pictures)
				}
			case porcupine.Unknown:
				undecided++
				fmt.Printf("undecided: %s: no order was found or excluded in %s\n", each.name, timeout)
			}
		}
		if len(part.objects) > 0 {
			fmt.Printf("%s: %d with %d operations\n", part.what, len(part.objects), operations)
		}
	}
	switch {
	case refused > 0:
		fmt.Printf("%d refused\n", refused)
		return exitRefused
	case undecided > 0:
		return exitUndecided
	}
	return exitOK
}

func (o *object) check(timeout time.Duration) porcupine.CheckResult {
	if o.missing != "" {
		return porcupine.Illegal
	}
	return porcupine.CheckOperationsTimeout(o.model, o.operations, timeout)
}

// explain says at which state no operation fits any more, and draws what is around it.
func (o *object) explain(timeout time.Duration, pictures string) {
	if o.missing != "" {
		fmt.Printf("refused: %s: %s\n", o.name, o.missing)
		return
	}
	_, info := porcupine.CheckOperationsVerbose(o.model, o.operations, timeout)
	longest := longestOrder(info)
	state, pending := o.after(longest)
	fmt.Printf("refused: %s: after %d of %d operations (%s) none of these fits:\n",
		o.name, len(longest), len(o.operations), o.model.DescribeState(state))
	for index, each := range pending {
		if index == mostPending {
			fmt.Printf("  and %d more\n", len(pending)-index)
			break
		}
		fmt.Printf("  %s\n", o.model.DescribeOperation(each.Input, each.Output))
	}
	if pictures != "" {
		o.draw(longest, timeout, fmt.Sprintf("%s.%s.html", pictures, fileName(o.name)))
	}
}

func fileName(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" /:", r) {
			return '-'
		}
		return r
	}, text)
}
