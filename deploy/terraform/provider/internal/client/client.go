// Package client speaks the HTTP API: it says who asks, tries again where that is safe, and tells
// apart what was done, what was not and what nobody knows.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxAnswerBytes = 64 << 20
	// idleConnections stay open to a server: Terraform works on many resources at once.
	idleConnections = 64
)

// Options are what the provider's configuration comes to.
type Options struct {
	// URLs are of servers of one installation; the next is asked where one cannot be reached.
	URLs         []string
	Token        string
	ClientID     string
	ClientSecret string
	// Tenant is where things are that name none; "" for the credential's own.
	Tenant     string
	CAFile     string
	MaxRetries int
	// Timeout is of one try.
	Timeout   time.Duration
	UserAgent string
}

// Client is used by all resources at once.
type Client struct {
	options Options
	http    *http.Client
	at      atomic.Uint32
	tokens  *tokens
}

// New fails when the CA file cannot be read.
func New(options Options) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = idleConnections
	if options.CAFile != "" {
		pem, err := os.ReadFile(options.CAFile)
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", options.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	plain := &http.Client{Transport: transport, Timeout: options.Timeout, CheckRedirect: noRedirects}
	client := &Client{options: options, http: plain}
	client.tokens = newTokens(client)
	return client, nil
}

// Request is one call.
type Request struct {
	Method string
	// Path begins with a slash, has its parts escaped, and may have a query.
	Path string
	// Tenant is in which it acts; "" for above tenants, or the token's own.
	Tenant string
	// Body is sent as JSON; nil: none.
	Body any
	// IfMatch is the ETag that the thing must still have; "": any.
	IfMatch string
	// Once is set where doing it twice is not the same as once.
	Once bool
}

// Answer is a call that was done.
type Answer struct {
	Status int
	ETag   string
	// Body is what its JSON decodes to, numbers as json.Number; nil when there was none.
	Body map[string]any
	// Doubtful: an earlier try may have been the one that did it.
	Doubtful bool
}

// Do makes the call. Fails with *Problem, with *Unknown, or because no server could be reached.
// `Answer.Doubtful` is also true beside an error.
func (c *Client) Do(ctx context.Context, request Request) (Answer, error) {
	payload, err := payloadOf(request)
	if err != nil {
		return Answer{}, err
	}
	doubtful, renewed := false, false
	for tries := 0; ; tries++ {
		token, err := c.tokens.of(ctx, request.Tenant)
		if err != nil {
			return Answer{Doubtful: doubtful}, err
		}
		answer, said, retryAfter, err := c.try(ctx, request, payload, token)
		answer.Doubtful = doubtful
		if err == nil {
			return answer, nil
		}
		var problem *Problem
		expired := errors.As(err, &problem) && problem.Status == http.StatusUnauthorized
		if expired && !renewed && c.tokens.forget(request.Tenant, token) {
			renewed = true
			continue
		}
		if said == unknowns {
			doubtful = true
		}
		again := said == refused || said == unknowns && !request.Once
		if !again || tries >= c.options.MaxRetries || ctx.Err() != nil {
			return Answer{Doubtful: doubtful}, told(err, said)
		}
		if err := sleep(ctx, pauseBefore(tries, retryAfter)); err != nil {
			return Answer{Doubtful: doubtful}, err
		}
	}
}

// told is how a last error is handed on: as *Unknown where it is not known what was done.
func told(err error, said verdict) error {
	if said == unknowns {
		return &Unknown{Cause: err}
	}
	return err
}

func payloadOf(request Request) ([]byte, error) {
	if request.Body == nil {
		return nil, nil
	}
	return json.Marshal(request.Body)
}

func (c *Client) try(
	ctx context.Context, request Request, payload []byte, token string,
) (Answer, verdict, string, error) {
	made, err := http.NewRequestWithContext(
		ctx, request.Method, c.url()+request.Path, bytes.NewReader(payload))
	if err != nil {
		return Answer{}, final, "", err
	}
	made.Header.Set("Authorization", "Bearer "+token)
	if payload != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	if request.IfMatch != "" {
		made.Header.Set("If-Match", request.IfMatch)
	}
	answer, body, said, err := c.send(made)
	if err != nil {
		return Answer{}, said, "", err
	}
	if answer.StatusCode >= 300 {
		said = verdictOfStatus(answer.StatusCode)
		return Answer{}, said, answer.Header.Get("Retry-After"), problemOf(answer, body)
	}
	done := Answer{Status: answer.StatusCode, ETag: answer.Header.Get("ETag")}
	if len(body) > 0 {
		if done.Body, err = Decode(body); err != nil {
			return Answer{}, final, "", fmt.Errorf("the answer is no JSON object: %w", err)
		}
	}
	return done, final, "", nil
}

// send reads the whole answer. A server that was not reached is not asked next time.
func (c *Client) send(made *http.Request) (*http.Response, []byte, verdict, error) {
	made.Header.Set("User-Agent", c.options.UserAgent)
	made.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(made)
	if err != nil {
		c.at.Add(1)
		return nil, nil, verdictOfError(err), err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return nil, nil, unknowns, err
	}
	return answer, body, final, nil
}

func (c *Client) url() string {
	urls := c.options.URLs
	return strings.TrimRight(urls[int(c.at.Load())%len(urls)], "/")
}

// Decode reads a JSON object and keeps numbers as they are written.
func Decode(body []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var object map[string]any
	return object, decoder.Decode(&object)
}

// IsMissing is true for what is not there: also for all that is in a tenant that is not there.
func IsMissing(err error) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Status == http.StatusNotFound
}

// IsRefused is true for a problem with that slug.
func IsRefused(err error, slug string) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Slug() == slug
}

// IsThere is true where nothing was made, as there is one of that name already.
func IsThere(err error) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Status == http.StatusConflict &&
		strings.HasSuffix(problem.Slug(), "-exists")
}
