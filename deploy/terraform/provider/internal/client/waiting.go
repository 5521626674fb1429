package client

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	goneAfter = 10 * time.Minute
	lookEvery = 200 * time.Millisecond
)

// WaitUntilGone returns when what is at the path is not there any more. What is deleted step by
// step goes on by itself, whether anybody waits or not.
func (c *Client) WaitUntilGone(ctx context.Context, tenant, path string) error {
	until := time.Now().Add(goneAfter)
	for pause := lookEvery; ; pause = min(2*pause, maxPause) {
		_, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Tenant: tenant})
		if IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("it is not gone after %s; it goes on by itself, so destroy it again later", goneAfter)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Until calls again and again, until it is done or fails.
func (c *Client) Until(ctx context.Context, done func() (bool, error)) error {
	until := time.Now().Add(goneAfter)
	for pause := lookEvery; ; pause = min(2*pause, maxPause) {
		if ended, err := done(); ended || err != nil {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("it is not done after %s; it goes on by itself, so try again later", goneAfter)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}
