package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/oauth"
)

// newSender returns a Sender for requests to the provider. hosts, of the configuration, may
// be on any network. Other hosts, which metadata names, must be public, so that a provider
// cannot direct requests into the private network.
//
// Its errors are ErrUnavailable where a later request may succeed: no connection, no answer
// in time, 429 and 5xx.
func newSender(hosts []string, c Config) (oauth.Sender, error) {
	base := netguard.Options{CAFiles: c.CAFiles, Timeout: cmp.Or(c.timeout, requestTime)}
	own := base
	own.AllowPrivate, own.AllowLoopback = true, c.AllowPrivate || slices.ContainsFunc(hosts, isLoopback)
	other := base
	other.AllowPrivate = c.AllowPrivate
	toOwn, err := netguard.Client(own)
	if err != nil {
		return nil, err
	}
	toOther, err := netguard.Client(other)
	if err != nil {
		return nil, err
	}
	sendOwn, sendOther := oauth.NewSender(toOwn), oauth.NewSender(toOther)
	places := make(chan struct{}, maxRequests)
	return func(r *http.Request) (*oauth.Response, error) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return nil, fmt.Errorf("%w: too many requests are under way", ErrUnavailable)
		}
		send := sendOther
		if slices.Contains(hosts, strings.ToLower(r.URL.Hostname())) {
			send = sendOwn
		}
		resp, err := send(r)
		switch {
		case errors.Is(err, netguard.ErrForbidden), errors.Is(err, netguard.ErrTooLarge):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		case resp.Status >= 500, resp.Status == http.StatusTooManyRequests:
			return nil, fmt.Errorf("%w: %s://%s%s: it answers %d %s", ErrUnavailable, r.URL.Scheme, r.URL.Host, r.URL.EscapedPath(), resp.Status, http.StatusText(resp.Status))
		}
		return resp, nil
	}, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
