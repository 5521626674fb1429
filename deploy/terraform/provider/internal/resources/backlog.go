package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const (
	// askedAtOnce is how many backlogs are asked for at a time.
	askedAtOnce = 8
	// named is how many holds a text names.
	named = 10
)

// stake is what goes with a thing that is destroyed.
type stake struct {
	// Holds is all that the server refuses to delete it for.
	Holds []hold
	// Note is said beside, of what is lost and does not keep it from being destroyed.
	Note string
}

// hold is one thing that would be lost, as the server counts it.
type hold struct {
	Kind, Name, Advice string
	Messages           int64
}

// losses says what a hold of a kind is, by how many there are.
var losses = map[string]string{
	"undelivered":  "%s not acked",
	"delayed":      "%s delayed",
	"export":       "%s not exported",
	"snapshot":     "a snapshot of %s",
	"dead_letters": "%s as open dead letters",
}

// String is `2 messages not acked by "audit"; 1 message delayed`.
func (s stake) String() string {
	var parts []string
	for _, one := range s.Holds[:min(named, len(s.Holds))] {
		text, known := losses[one.Kind]
		if !known {
			text = "%s (" + strings.ReplaceAll(one.Kind, "_", " ") + ")"
		}
		text = fmt.Sprintf(text, messages(one.Messages))
		if one.Name != "" {
			text += fmt.Sprintf(" of %q", one.Name)
		}
		parts = append(parts, text)
	}
	if len(s.Holds) > named {
		parts = append(parts, fmt.Sprintf("and %d more", len(s.Holds)-named))
	}
	return strings.Join(parts, "; ")
}

// advice is what to do about each kind of them.
func (s stake) advice() string {
	var said []string
	for _, one := range s.Holds {
		if one.Advice != "" && !slices.Contains(said, one.Advice) {
			said = append(said, one.Advice)
		}
	}
	return strings.Join(said, " ")
}

// summary is `3 messages`, or what else it is where there are none.
func (s stake) summary() string {
	var count int64
	for _, one := range s.Holds {
		count += one.Messages
	}
	if count == 0 {
		return "a snapshot"
	}
	return messages(count)
}

func messages(count int64) string {
	if count == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", count)
}

const backlogAttribute = "backlog_messages"

// backlog is an attribute of data sources.
func backlog() map[string]*shape.Shape {
	made := shape.OfData(&contract.Node{
		Type: contract.Types{Name: "integer"}, Description: "Messages that are not acked.",
	}, nil)
	return map[string]*shape.Shape{backlogAttribute: made}
}

// observe makes it of a count.
func observe(
	count func(context.Context, Call) (int64, error),
) func(context.Context, Call, map[string]any) error {
	return func(ctx context.Context, call Call, answer map[string]any) error {
		found, err := count(ctx, call)
		answer[backlogAttribute] = json.Number(fmt.Sprint(found))
		return err
	}
}

// backlogOfSubscription is what its consumers have not acked.
func backlogOfSubscription(ctx context.Context, call Call) (int64, error) {
	return backlogOf(ctx, call, call.Name)
}

// backlogOfTopic is that of all its subscriptions.
func backlogOfTopic(ctx context.Context, call Call) (int64, error) {
	names, err := subscriptionsOf(ctx, call)
	if err != nil {
		return 0, err
	}
	counts, failures := make([]int64, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	gate := make(chan struct{}, askedAtOnce)
	for at, name := range names {
		asking.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			counts[at], failures[at] = backlogOf(ctx, call, name)
		})
	}
	asking.Wait()
	var found int64
	for at := range names {
		if failures[at] != nil {
			return 0, failures[at]
		}
		found += counts[at]
	}
	return found, nil
}

func backlogOf(ctx context.Context, call Call, name string) (int64, error) {
	answer, err := call.Do(ctx, http.MethodGet, "/subscriptions/"+url.PathEscape(name)+"/backlog", nil)
	if client.IsMissing(err) { // somebody else destroyed it
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return integerIn(answer.Body, "messages"), nil
}

func subscriptionsOf(ctx context.Context, call Call) ([]string, error) {
	var names []string
	query := url.Values{"page_size": {"1000"}}
	for {
		page, err := call.Do(ctx, http.MethodGet, call.Path+"/subscriptions?"+query.Encode(), nil)
		if client.IsMissing(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, one := range listIn(page.Body, "subscriptions") {
			names = append(names, textIn(one, "name"))
		}
		next := textIn(page.Body, "next_page_token")
		if next == "" {
			return names, nil
		}
		query.Set("page_token", next)
	}
}

// heldSubscription is what the server refuses to delete a subscription for.
func heldSubscription(ctx context.Context, call Call) (stake, error) {
	holds, err := holdsOf(ctx, call)
	return stake{Holds: holds}, err
}

// heldTopic is the same of a topic, and what it keeps for whoever comes later.
func heldTopic(ctx context.Context, call Call) (stake, error) {
	holds, err := holdsOf(ctx, call)
	if err != nil {
		return stake{}, err
	}
	note, err := keptBy(ctx, call)
	return stake{Holds: holds, Note: note}, err
}

func holdsOf(ctx context.Context, call Call) ([]hold, error) {
	answer, err := call.Do(ctx, http.MethodGet, call.Path+"/holds", nil)
	if client.IsMissing(err) && !client.IsRefused(err, "route-not-found") {
		return nil, nil // somebody else destroyed it
	}
	if err != nil {
		return nil, err
	}
	var found []hold
	for _, one := range listIn(answer.Body, "holds") {
		found = append(found, hold{
			Kind: textIn(one, "kind"), Name: textIn(one, "name"), Advice: textIn(one, "advice"),
			Messages: integerIn(one, "messages"),
		})
	}
	return found, nil
}

// keptBy tells of the messages in a topic that keeps them, acked or not.
func keptBy(ctx context.Context, call Call) (string, error) {
	topic, err := call.Do(ctx, http.MethodGet, call.Path, nil)
	if client.IsMissing(err) {
		return "", nil
	}
	retention, _ := topic.Body["retention"].(map[string]any)
	if err != nil || textIn(retention, "mode") != "retain" {
		return "", err
	}
	found, err := call.Do(ctx, http.MethodGet, call.Path+"/partitions", nil)
	if err != nil {
		return "", err
	}
	var kept int64
	for _, generation := range listIn(found.Body, "partitions") {
		kept += integerIn(generation, "end") - integerIn(generation, "first")
	}
	if kept == 0 {
		return "", nil
	}
	return messages(kept) + " that it keeps go with it, acked or not.", nil
}

func listIn(object map[string]any, name string) []map[string]any {
	items, _ := object[name].([]any)
	var found []map[string]any
	for _, item := range items {
		if one, ok := item.(map[string]any); ok {
			found = append(found, one)
		}
	}
	return found
}

func textIn(object map[string]any, name string) string {
	text, _ := object[name].(string)
	return text
}

func integerIn(object map[string]any, name string) int64 {
	number, _ := object[name].(json.Number)
	value, _ := number.Int64()
	return value
}
