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
)

const (
	// askedAtOnce is how many backlogs are asked for at a time.
	askedAtOnce = 8
	// named is how many subscriptions a text names.
	named = 10
)

// stake is what goes with a thing that is destroyed.
type stake struct {
	// Messages that are not acked, by subscription; those that have none are left out.
	Messages map[string]int64
	// Note is said beside, of what is lost and does not keep it from being destroyed.
	Note string
}

func (s stake) total() int64 {
	var total int64
	for _, messages := range s.Messages {
		total += messages
	}
	return total
}

// String is `42 messages: 40 of "billing", 2 of "audit"`.
func (s stake) String() string {
	names := make([]string, 0, len(s.Messages))
	for name := range s.Messages {
		names = append(names, name)
	}
	slices.SortFunc(names, func(one, other string) int {
		if s.Messages[one] != s.Messages[other] {
			return int(s.Messages[other] - s.Messages[one])
		}
		return strings.Compare(one, other)
	})
	var parts []string
	for _, name := range names[:min(named, len(names))] {
		parts = append(parts, fmt.Sprintf("%d of %q", s.Messages[name], name))
	}
	more := ""
	if len(names) > named {
		more = fmt.Sprintf(" and of %d more", len(names)-named)
	}
	return messages(s.total()) + ": " + strings.Join(parts, ", ") + more
}

func messages(count int64) string {
	if count == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", count)
}

// backlogOfSubscription is what its consumers have not acked.
func backlogOfSubscription(ctx context.Context, call Call) (stake, error) {
	count, err := backlogOf(ctx, call, call.Name)
	if err != nil || count == 0 {
		return stake{}, err
	}
	return stake{Messages: map[string]int64{call.Name: count}}, nil
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
	found := stake{Messages: map[string]int64{}}
	for at, name := range names {
		if failures[at] != nil {
			return stake{}, failures[at]
		}
		if counts[at] > 0 {
			found.Messages[name] = counts[at]
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
