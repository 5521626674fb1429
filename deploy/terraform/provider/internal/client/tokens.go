package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	tokenPath = "/oauth/token"
	// aheadOfTime is how long before its end a token is renewed.
	aheadOfTime = time.Minute
)

// Identity is who the credential is.
type Identity struct {
	Tenant string
	// Operator acts above tenants, and in each of them as its owner.
	Operator bool
}

type accessToken struct {
	text string
	ends time.Time
}

// tokens has an access token for each tenant that is worked in. An operator's credential gets one
// for any of them; others are of one tenant.
type tokens struct {
	client *Client
	mutex  sync.Mutex
	held   map[string]accessToken
	self   *Identity
}

func newTokens(client *Client) *tokens {
	return &tokens{client: client, held: map[string]accessToken{}}
}

// Identity asks the server once.
func (c *Client) Identity(ctx context.Context) (Identity, error) {
	c.tokens.mutex.Lock()
	known := c.tokens.self
	c.tokens.mutex.Unlock()
	if known != nil {
		return *known, nil
	}
	answer, err := c.Do(ctx, Request{Method: http.MethodGet, Path: "/whoami"})
	if err != nil {
		return Identity{}, fmt.Errorf("asking who the credential is: %w", err)
	}
	tenant, _ := answer.Body["tenant"].(string)
	subject, _ := answer.Body["subject"].(string)
	identity := Identity{Tenant: tenant, Operator: strings.HasPrefix(subject, "operator:")}
	c.tokens.mutex.Lock()
	c.tokens.self = &identity
	c.tokens.mutex.Unlock()
	return identity, nil
}

// TenantOf says in which tenant a thing is that names `named`, or none ("").
func (c *Client) TenantOf(ctx context.Context, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if c.options.Tenant != "" {
		return c.options.Tenant, nil
	}
	identity, err := c.Identity(ctx)
	if err != nil {
		return "", err
	}
	if identity.Operator && identity.Tenant == platform {
		return "", ErrNoTenant
	}
	return identity.Tenant, nil
}

// ErrNoTenant: an operator belongs to no tenant, so it has to be said in which one a thing is.
var ErrNoTenant = errors.New(
	"the credential is an operator's, which is in no tenant: set `tenant` here or in the provider")

const platform = "platform"

// of is the token to act in the tenant with, "" for the credential's own.
func (t *tokens) of(ctx context.Context, tenant string) (string, error) {
	if t.client.options.Token == "" {
		return t.issued(ctx, tenant)
	}
	if tenant != "" {
		identity, err := t.client.Identity(ctx)
		if err != nil {
			return "", err
		}
		if identity.Tenant != tenant {
			return "", fmt.Errorf(
				"the token is of the tenant %q and good for no other, and this is in %q: "+
					"use an operator's client_id and client_secret, or a token of that tenant",
				identity.Tenant, tenant)
		}
	}
	return t.client.options.Token, nil
}

// issued asks for one at most once at a time, and keeps it.
func (t *tokens) issued(ctx context.Context, tenant string) (string, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if held, ok := t.held[tenant]; ok && time.Now().Before(held.ends) {
		return held.text, nil
	}
	token, err := t.client.askForToken(ctx, tenant)
	if err != nil {
		return "", err
	}
	t.held[tenant] = token
	return token.text, nil
}

// forget is false where there is no way to another one.
func (t *tokens) forget(tenant, text string) bool {
	if t.client.options.Token != "" {
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held[tenant].text == text {
		delete(t.held, tenant)
	}
	return true
}

func (c *Client) askForToken(ctx context.Context, tenant string) (accessToken, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if tenant != "" {
		form.Set("tenant", tenant)
	}
	for tries := 0; ; tries++ {
		answer, body, said, err := c.postForm(ctx, form)
		retryAfter := ""
		if err == nil && answer.StatusCode == http.StatusOK {
			return tokenIn(body)
		}
		if err == nil {
			said, retryAfter = verdictOfStatus(answer.StatusCode), answer.Header.Get("Retry-After")
			err = refusalOf(answer, body, tenant)
		}
		if said == final || tries >= c.options.MaxRetries {
			return accessToken{}, err
		}
		if err := sleep(ctx, pauseBefore(tries, retryAfter)); err != nil {
			return accessToken{}, err
		}
	}
}

func (c *Client) postForm(
	ctx context.Context, form url.Values,
) (*http.Response, []byte, verdict, error) {
	made, err := http.NewRequestWithContext(
		ctx, http.MethodPost, c.url()+tokenPath, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, nil, final, err
	}
	made.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	made.SetBasicAuth(c.options.ClientID, c.options.ClientSecret)
	return c.send(made)
}

func tokenIn(body []byte) (accessToken, error) {
	said, err := Decode(body)
	if err != nil {
		return accessToken{}, fmt.Errorf("the answer of %s is no JSON: %w", tokenPath, err)
	}
	text, _ := said["access_token"].(string)
	lasts, err := time.ParseDuration(fmt.Sprint(said["expires_in"]) + "s")
	if err != nil || text == "" {
		return accessToken{}, fmt.Errorf("the answer of %s has no token", tokenPath)
	}
	return accessToken{text: text, ends: time.Now().Add(max(lasts-aheadOfTime, lasts/2))}, nil
}

// refusalOf reads an error of OAuth (RFC 6749 §5.2). The one way in which a request of ours is
// invalid is that it names a tenant that is not there.
func refusalOf(answer *http.Response, body []byte, tenant string) error {
	said, err := Decode(body)
	code, _ := said["error"].(string)
	if err != nil || code == "" {
		return problemOf(answer, body)
	}
	detail, _ := said["error_description"].(string)
	if code == "invalid_request" && tenant != "" {
		return &Problem{
			Type: "tenant-not-found", Title: "No such tenant", Status: http.StatusNotFound,
			Detail: fmt.Sprintf("There is no tenant %q.", tenant),
		}
	}
	return fmt.Errorf("no access token: %s (%s)", detail, code)
}
