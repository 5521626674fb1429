package resources

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
)

// calling answers what `answers` has for METHOD PATH?QUERY, one after the other, and 404 for all
// that it lacks.
func calling(t *testing.T, answers map[string][]string) Call {
	t.Helper()
	var one sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, request *http.Request) {
		one.Lock()
		defer one.Unlock()
		key := request.Method + " " + request.URL.RequestURI()
		if len(answers[key]) == 0 {
			to.WriteHeader(http.StatusNotFound)
			return
		}
		status, body, _ := strings.Cut(answers[key][0], " ")
		answers[key] = answers[key][1:]
		var code int
		fmt.Sscan(status, &code)
		to.WriteHeader(code)
		fmt.Fprint(to, body)
	}))
	t.Cleanup(server.Close)
	made, err := client.New(client.Options{URLs: []string{server.URL}, Token: "t", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return Call{Client: made, Name: "orders", Path: "/topics/orders"}
}

const firstPage = "GET /topics/orders/subscriptions?page_size=1000"

func TestABacklogOfATopicIsThatOfAllItsSubscriptions(t *testing.T) {
	call := calling(t, map[string][]string{
		firstPage: {`200 {"subscriptions": [{"name": "a"}, {"name": "gone"}], "next_page_token": "x"}`},
		"GET /topics/orders/subscriptions?page_size=1000&page_token=x": {
			`200 {"subscriptions": [{"name": "b"}, {"name": "idle"}], "next_page_token": null}`},
		"GET /subscriptions/a/backlog":    {`200 {"messages": 1}`},
		"GET /subscriptions/b/backlog":    {`200 {"messages": 20}`},
		"GET /subscriptions/idle/backlog": {`200 {"messages": 0}`},
	})

	found, err := backlogOfTopic(context.Background(), call)

	if err != nil || found != 21 {
		t.Fatal(found, err)
	}
}

func TestAPlanNamesAllThatHoldsATopic(t *testing.T) {
	call := calling(t, map[string][]string{
		"GET /topics/orders/holds": {`200 {"holds": [
			{"kind": "undelivered", "name": "b", "messages": 20, "advice": "Have them acked."},
			{"kind": "undelivered", "name": "a", "messages": 1, "advice": "Have them acked."},
			{"kind": "delayed", "name": null, "messages": 3, "advice": "Cancel them."},
			{"kind": "snapshot", "name": "then", "messages": 0, "advice": "Delete it."},
			{"kind": "new_kind", "name": null, "messages": 2, "advice": ""}]}`},
		"GET /topics/orders": {`200 {"retention": {"mode": "retain"}}`},
		"GET /topics/orders/partitions": {`200 {"partitions": [
			{"first": 5, "end": 30}, {"first": null, "end": null}]}`},
	})

	found, err := heldTopic(context.Background(), call)

	if err != nil || found.String() != `20 messages not acked of "b"; 1 message not acked of "a"; `+
		`3 messages delayed; a snapshot of 0 messages of "then"; 2 messages (new kind)` {
		t.Fatal(found, err)
	}
	if found.summary() != "26 messages" || found.advice() != "Have them acked. Cancel them. Delete it." {
		t.Fatal(found.summary(), found.advice())
	}
	if !strings.HasPrefix(found.Note, "25 messages") {
		t.Fatal(found.Note)
	}
}

func TestAServerThatCannotSayWhatWouldBeLostIsNotTakenForOneThatHoldsNothing(t *testing.T) {
	missing := `404 {"type": "https://packetboat.dev/problems/route-not-found", "title": "No such route"}`
	call := calling(t, map[string][]string{"GET /topics/orders/holds": {missing}})

	if found, err := heldSubscription(context.Background(), call); err == nil {
		t.Fatal(found)
	}
}

func TestABacklogThatCannotBeCountedIsAnError(t *testing.T) {
	call := calling(t, map[string][]string{
		firstPage:                      {`200 {"subscriptions": [{"name": "a"}], "next_page_token": null}`},
		"GET /subscriptions/a/backlog": {`403 {}`},
	})

	if found, err := backlogOfTopic(context.Background(), call); err == nil {
		t.Fatal(found)
	}
}

func TestOnlySomeHoldsAreNamed(t *testing.T) {
	var found stake
	for number := int64(1); number <= named+2; number++ {
		name := fmt.Sprintf("s%d", number)
		found.Holds = append(found.Holds, hold{Kind: "undelivered", Name: name, Messages: number})
	}

	text := found.String()

	if !strings.HasPrefix(text, `1 message not acked of "s1"; 2 messages not acked of "s2"`) ||
		!strings.HasSuffix(text, `10 messages not acked of "s10"; and 2 more`) {
		t.Fatal(text)
	}
}

func TestPartitionsAreAskedForUntilTheyAreThere(t *testing.T) {
	answers := map[string][]string{"POST /topics/orders:grow": {"202 {}", "202 {}", "200 {}", "200 {}"}}
	call := calling(t, answers)

	if err := grow(context.Background(), call, "8"); err != nil || len(answers["POST /topics/orders:grow"]) != 1 {
		t.Fatal(err, answers)
	}
}

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	made, err := client.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestWhereItBeginsIsAWordOrAnObjectInTheAPI(t *testing.T) {
	for terraform, api := range map[string]string{
		`{"start": {"position": "earliest"}}`: `{"start": "earliest"}`,
		`{"start": {"offset": 3}}`:            `{"start": {"offset": 3}}`,
		`{"start": {}}`:                       `{}`,
	} {
		body := object(t, terraform)
		sendStart(body, false)
		if !reflect.DeepEqual(body, object(t, api)) {
			t.Error(terraform, body)
		}
		sendStart(body, true)
		if len(body) != 0 {
			t.Error("of a change:", body)
		}
		answer := object(t, api)
		receiveStart(answer)
		if len(answer) != 0 && !reflect.DeepEqual(answer, object(t, terraform)) {
			t.Error(api, answer)
		}
	}
}

func TestABodyIsATextHereAndJSONInTheAPI(t *testing.T) {
	for kind, data := range map[string][2]string{
		"application/json":                      {`{"a":[1,2.50]}`, `{"a":[1,2.50]}`},
		"application/Problem+JSON; charset=x-y": {`"text"`, `"text"`},
		"text/plain":                            {`{"a":1}`, `"{\"a\":1}"`},
	} {
		body := map[string]any{"message": map[string]any{"content_type": kind, "data": data[0]}}
		if err := sendMessage(context.Background(), Call{}, body, false); err != nil {
			t.Fatal(err)
		}
		written, _ := json.Marshal(body["message"].(map[string]any)["data"])
		if string(written) != data[1] {
			t.Error(kind, string(written))
		}
		answer := object(t, fmt.Sprintf(`{"message": {"content_type": %q, "data": %s}}`, kind, data[1]))
		receiveMessage(answer)
		if got := answer["message"].(map[string]any)["data"]; got != data[0] {
			t.Error(kind, got)
		}
	}
}

func TestSecretHeadersAreSentBesideTheOthers(t *testing.T) {
	body := object(t, `{"push": {"headers": {"a": "1"}}, "secret_headers": {"b": "2"}}`)
	sendHeaders(body)
	if !reflect.DeepEqual(body, object(t, `{"push": {"headers": {"a": "1", "b": "2"}}}`)) {
		t.Fatal(body)
	}
}
