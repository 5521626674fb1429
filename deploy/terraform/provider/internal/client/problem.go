package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// FieldError is one field of a request that does not fit: its name (dotted, with indices) and what
// to do about it.
type FieldError struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// Problem is what the server answers instead of what was asked for (RFC 9457). It is an error:
// nothing of the request took effect.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"`
	// Members has all of the object, also what only some problems say.
	Members map[string]any `json:"-"`
	// RequestID is what the server's log calls the request.
	RequestID string `json:"-"`
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.RequestID != "" {
		text += fmt.Sprintf(" (%d %s, request %s)", p.Status, p.Slug(), p.RequestID)
	}
	return text
}

// Slug is the last part of the type: `topic-not-found`. docs/problems.md describes each.
func (p *Problem) Slug() string {
	return p.Type[strings.LastIndex(p.Type, "/")+1:]
}

// Unknown is an error after which the request may or may not have taken effect.
type Unknown struct{ Cause error }

func (u *Unknown) Error() string {
	return "it may or may not have been done: " + u.Cause.Error()
}

func (u *Unknown) Unwrap() error { return u.Cause }

// problemOf reads the error that an answer is. Anything that is no problem object becomes one with
// the status alone: a balancer may have answered.
func problemOf(answer *http.Response, body []byte) *Problem {
	problem := &Problem{}
	if json.Unmarshal(body, problem) != nil || problem.Title == "" {
		problem = &Problem{Type: "about:blank", Title: http.StatusText(answer.StatusCode)}
		problem.Detail = answer.Status
	}
	_ = json.Unmarshal(body, &problem.Members)
	problem.Status = answer.StatusCode
	problem.RequestID = answer.Header.Get("X-Request-Id")
	return problem
}
