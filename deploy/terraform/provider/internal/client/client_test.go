package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/packetboat/terraform-provider-packetboat/internal/client"
)

// server answers what the functions say, one for each request that is no request for a token.
type server struct {
	*httptest.Server
	answers  []http.HandlerFunc
	requests []string
	bodies   []string
	tokens   []string
}

func serving(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	made := &server{answers: answers}
	made.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/oauth/token" {
			_ = r.ParseForm()
			made.tokens = append(made.tokens, r.PostForm.Get("tenant"))
			if r.PostForm.Get("tenant") == "gone" {
				problem(http.StatusBadRequest, `{"error": "invalid_request", "error_description": "no"}`)(w, r)
				return
			}
			said(http.StatusOK, `{"access_token": "T", "expires_in": 3600}`)(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		made.bodies = append(made.bodies, string(body))
		made.requests = append(made.requests, r.Method+" "+r.URL.Path)
		if len(made.requests) > len(made.answers) {
			t.Errorf("a request too many: %v", made.requests)
			return
		}
		made.answers[len(made.requests)-1](w, r)
	}))
	t.Cleanup(made.Close)
	return made
}

func said(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"7"`)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		said(status, body)(w, r)
	}
}

// cut takes the request and ends the connection without an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	connection, _, _ := w.(http.Hijacker).Hijack()
	_ = connection.Close()
}

func (s *server) client(t *testing.T, change func(*client.Options)) *client.Client {
	t.Helper()
	options := client.Options{
		URLs: []string{s.URL}, ClientID: "pbc_x", ClientSecret: "pbs_x", MaxRetries: 3, Timeout: time.Minute,
	}
	if change != nil {
		change(&options)
	}
	made, err := client.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func do(t *testing.T, of *client.Client, request client.Request) (client.Answer, error) {
	t.Helper()
	return of.Do(context.Background(), request)
}

func TestAnAnswerHasItsETagAndItsNumbersAsWritten(t *testing.T) {
	made := serving(t, said(http.StatusOK, `{"limit": 9007199254740993}`)).client(t, nil)
	answer, err := do(t, made, client.Request{Method: "GET", Path: "/x"})
	if err != nil || answer.ETag != `"7"` || answer.Body["limit"] != json.Number("9007199254740993") {
		t.Fatal(answer, err)
	}
}

func TestWhatWasRefusedIsAskedAgain(t *testing.T) {
	unavailable := problem(http.StatusServiceUnavailable, `{"title": "no", "type": "x/overload"}`)
	made := serving(t, unavailable, unavailable, said(http.StatusCreated, `{}`)).client(t, nil)
	answer, err := do(t, made, client.Request{Method: "POST", Path: "/x", Body: map[string]any{}, Once: true})
	if err != nil || answer.Status != http.StatusCreated || answer.Doubtful {
		t.Fatal(answer, err)
	}
}

func TestWhatATenantChangesTooFastIsAskedAgainWhenTheServerSays(t *testing.T) {
	later := func(slug string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "1")
			problem(http.StatusTooManyRequests, `{"title": "no", "type": "x/`+slug+`"}`)(w, r)
		}
	}
	made := serving(t, later("too-many-changes"), later("work-limited"), said(http.StatusCreated, `{}`)).client(t, nil)
	began := time.Now()
	answer, err := do(t, made, client.Request{Method: "POST", Path: "/x", Body: map[string]any{}, Once: true})
	if err != nil || answer.Status != http.StatusCreated || time.Since(began) < 2*time.Second {
		t.Fatal(answer, err, time.Since(began))
	}
}

func TestAQuotaIsSaidOnceAndWithItsName(t *testing.T) {
	over := problem(http.StatusForbidden, `{"title": "no", "type": "x/quota-exceeded", "quota": "topics", "limit": 5}`)
	made := serving(t, over).client(t, nil)
	_, err := do(t, made, client.Request{Method: "POST", Path: "/x", Body: map[string]any{}, Once: true})
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Slug() != "quota-exceeded" || refused.Members["quota"] != "topics" {
		t.Fatal(err)
	}
}

func TestTriesEnd(t *testing.T) {
	unavailable := problem(http.StatusServiceUnavailable, `{"title": "no", "type": "x/overload"}`)
	made := serving(t, unavailable, unavailable, unavailable, unavailable).client(t, nil)
	_, err := do(t, made, client.Request{Method: "GET", Path: "/x"})
	if !client.IsRefused(err, "overload") {
		t.Fatal(err)
	}
}

func TestWhatMayHaveBeenDoneIsAskedAgainAndSaysSo(t *testing.T) {
	made := serving(t, cut, said(http.StatusOK, `{}`)).client(t, nil)
	answer, err := do(t, made, client.Request{Method: "PUT", Path: "/x", Body: map[string]any{}})
	if err != nil || !answer.Doubtful {
		t.Fatal(answer, err)
	}
}

func TestWhatIsNotTheSameTwiceIsNotAskedAgain(t *testing.T) {
	made := serving(t, problem(http.StatusGatewayTimeout, `{"title": "unknown"}`)).client(t, nil)
	_, err := do(t, made, client.Request{Method: "POST", Path: "/x", Once: true})
	var unknown *client.Unknown
	if !errors.As(err, &unknown) {
		t.Fatal(err)
	}
}

func TestTheNextServerIsAskedWhereOneIsNotThere(t *testing.T) {
	away := serving(t)
	away.Close()
	here := serving(t, said(http.StatusOK, `{}`))
	made := here.client(t, func(o *client.Options) { o.URLs = []string{away.URL, here.URL} })
	if _, err := do(t, made, client.Request{Method: "GET", Path: "/x"}); err != nil {
		t.Fatal(err)
	}
}

func TestATokenIsAskedForOnceForEachTenant(t *testing.T) {
	ok := said(http.StatusOK, `{}`)
	there := serving(t, ok, ok, ok)
	made := there.client(t, nil)
	for _, tenant := range []string{"a", "b", "a"} {
		if _, err := do(t, made, client.Request{Method: "GET", Path: "/x", Tenant: tenant}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Join(there.tokens, " ") != "a b" {
		t.Fatal(there.tokens)
	}
}

func TestATokenThatHoldsNoMoreIsRenewedOnce(t *testing.T) {
	refused := problem(http.StatusUnauthorized, `{"title": "no", "type": "x/unauthenticated"}`)
	there := serving(t, refused, refused)
	_, err := do(t, there.client(t, nil), client.Request{Method: "GET", Path: "/x"})
	if !client.IsRefused(err, "unauthenticated") || len(there.tokens) != 2 {
		t.Fatal(err, there.tokens)
	}
}

func TestATenantThatIsGoneIsMissing(t *testing.T) {
	_, err := do(t, serving(t).client(t, nil), client.Request{Method: "GET", Path: "/x", Tenant: "gone"})
	if !client.IsMissing(err) {
		t.Fatal(err)
	}
}

func TestATokenIsForItsOwnTenantAlone(t *testing.T) {
	whoami := said(http.StatusOK, `{"tenant": "mine", "subject": "key:ci"}`)
	there := serving(t, whoami, said(http.StatusOK, `{}`))
	made := there.client(t, func(o *client.Options) { o.Token, o.ClientID, o.ClientSecret = "pbk_x", "", "" })
	if _, err := do(t, made, client.Request{Method: "GET", Path: "/x", Tenant: "mine"}); err != nil {
		t.Fatal(err)
	}
	_, err := do(t, made, client.Request{Method: "GET", Path: "/x", Tenant: "other"})
	if err == nil || !strings.Contains(err.Error(), `the tenant "mine"`) {
		t.Fatal(err)
	}
}

func TestWhatNamesNoTenantIsInTheProvidersElseInTheCredentials(t *testing.T) {
	whoami := said(http.StatusOK, `{"tenant": "mine", "subject": "client:ci"}`)
	for _, tenant := range []string{"", "given"} {
		made := serving(t, whoami).client(t, func(o *client.Options) { o.Tenant = tenant })
		found, err := made.TenantOf(context.Background(), "")
		if want := map[string]string{"": "mine", "given": "given"}[tenant]; err != nil || found != want {
			t.Fatal(found, err)
		}
	}
}

func TestAnOperatorIsInNoTenant(t *testing.T) {
	made := serving(t, said(http.StatusOK, `{"tenant": "platform", "subject": "operator:root"}`)).client(t, nil)
	if _, err := made.TenantOf(context.Background(), ""); !errors.Is(err, client.ErrNoTenant) {
		t.Fatal(err)
	}
}
