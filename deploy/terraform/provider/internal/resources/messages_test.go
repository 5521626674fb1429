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
		"GET /topics/orders":              {`200 {"retention": {"mode": "retain"}}`},
		"GET /topics/orders/partitions": {`200 {"partitions": [
			{"first": 5, "end": 30}, {"first": null, "end": null}]}`},
	})

	found, err := backlogOfTopic(context.Background(), call)

	if err != nil || found.String() != `21 messages: 20 of "b", 1 of "a"` {
		t.Fatal(found, err)
	}
	if !strings.HasPrefix(found.Note, "25 messages") {
		t.Fatal(found.Note)
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

func TestOnlyTheLargestBacklogsAreNamed(t *testing.T) {
	found := stake{Of: map[string]int64{}}
	for number := int64(1); number <= named+2; number++ {
		found.Of[fmt.Sprintf("s%d", number)] = number
		found.Count += number
	}

	text := found.String()

	if !strings.HasPrefix(text, `78 messages: 12 of "s12", 11 of "s11"`) ||
		!strings.HasSuffix(text, `3 of "s3", and of 2 more`) {
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
