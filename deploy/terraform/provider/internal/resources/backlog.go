package resources

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	// named is how many subscriptions a text names.
	named = 10
)

// stake is what goes with a thing that is destroyed.
type stake struct {
	// Count is how many messages somebody still has to ack; Of says how many of each subscription,
	// of a topic.
	Count int64
	Of    map[string]int64
	// Note is said beside, of what is lost and does not keep it from being destroyed.
	Note string
}

// String is `42 messages: 40 of "billing", 2 of "audit"`.
func (s stake) String() string {
	names := slices.SortedFunc(maps.Keys(s.Of), func(one, other string) int {
		return cmp.Or(cmp.Compare(s.Of[other], s.Of[one]), cmp.Compare(one, other))
	})
	if len(names) == 0 {
		return messages(s.Count)
	}
	var parts []string
	for _, name := range names[:min(named, len(names))] {
		parts = append(parts, fmt.Sprintf("%d of %q", s.Of[name], name))
	}
	if len(names) > named {
		parts = append(parts, fmt.Sprintf("and of %d more", len(names)-named))
	}
	return messages(s.Count) + ": " + strings.Join(parts, ", ")
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
	count func(context.Context, Call) (stake, error),
) func(context.Context, Call, map[string]any) error {
	return func(ctx context.Context, call Call, answer map[string]any) error {
		found, err := count(ctx, call)
		answer[backlogAttribute] = json.Number(fmt.Sprint(found.Count))
		return err
	}
}

// backlogOfSubscription is what its consumers have not acked.
func backlogOfSubscription(ctx context.Context, call Call) (stake, error) {
	count, err := backlogOf(ctx, call, call.Name)
	return stake{Count: count}, err
}

// backlogOfTopic is that of all its subscriptions, and what it keeps for whoever comes later.
func backlogOfTopic(ctx context.Context, call Call) (stake, error) {
	names, err := subscriptionsOf(ctx, call)
	if err != nil {
		return stake{}, err
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
	found := stake{Of: map[string]int64{}}
	for at, name := range names {
		if failures[at] != nil {
			return stake{}, failures[at]
		}
		if counts[at] > 0 {
			found.Of[name] = counts[at]
			found.Count += counts[at]
		}
	}
	found.Note, err = keptBy(ctx, call)
	return found, err
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
