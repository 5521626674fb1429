package client

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	doneAfter = 10 * time.Minute
	lookEvery = 200 * time.Millisecond
)

// WaitUntilGone returns when what is at the path is not there any more. What is deleted step by
// step goes on by itself, whether anybody waits or not.
func (c *Client) WaitUntilGone(ctx context.Context, tenant, path string) error {
	return c.Until(ctx, func() (bool, error) {
		_, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Tenant: tenant})
		if IsMissing(err) {
			return true, nil
		}
		return false, err
	})
}

// Until calls again and again, until it is done or fails.
func (c *Client) Until(ctx context.Context, done func() (bool, error)) error {
	until := time.Now().Add(doneAfter)
	for pause := lookEvery; ; pause = min(2*pause, maxPause) {
		if ended, err := done(); ended || err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("it is not done after %s; it goes on by itself, so try again later", doneAfter)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}
