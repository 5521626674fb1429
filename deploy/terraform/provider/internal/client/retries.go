package client

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// verdict says what became of a try, and with that when another is allowed.
type verdict int

const (
	final    verdict = iota // the same answer would come again
	refused                 // nothing took effect: may be sent again
	unknowns                // it may have taken effect: again only where twice does no harm
)

func verdictOfStatus(status int) verdict {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return refused
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return unknowns
	}
	return final
}

// verdictOfError: who could not be reached did nothing, and who is not trusted was told nothing.
func verdictOfError(err error) verdict {
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return final
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return refused
	}
	return unknowns
}

// pauseBefore the try that follows `tries` others: full jitter, and what the server asks for.
func pauseBefore(tries int, retryAfter string) time.Duration {
	most := min(maxPause, firstPause<<min(tries, 10))
	pause := rand.N(most)
	if seconds, err := strconv.Atoi(retryAfter); err == nil && seconds > 0 {
		pause += time.Duration(seconds) * time.Second
	}
	return pause
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
