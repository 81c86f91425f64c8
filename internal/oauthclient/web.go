package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/toolhaven/toolhaven/internal/netguard"
)

// Bounds on what a server answers: decisions.md, "Sizes and times".
const (
	maxDocument    = 1 << 20
	requestTimeout = 10 * time.Second
	connectTimeout = 2500 * time.Millisecond
)

// web does HTTP with servers within reach.
type web struct{ client *http.Client }

// within makes a client that follows no redirects: a document or a token that
// is somewhere else is not where its owner said.
func (s *Store) within(r reach) (*web, error) {
	client, err := netguard.Client(netguard.Options{
		CAFiles: s.caFiles, AllowPrivate: r != reachPublic, AllowLoopback: r == reachAny, Timeout: requestTimeout,
	})
	if err != nil {
		return nil, err
	}
	return &web{client}, nil
}

func (w *web) close() { w.client.CloseIdleConnections() }

// answer is an HTTP response, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
	from   reach // of the address that answered
}

func (w *web) do(req *http.Request) (*answer, error) {
	a := &answer{}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	patience := time.AfterFunc(connectTimeout, func() { cancel(fmt.Errorf("no connection within %s", connectTimeout)) })
	defer patience.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		patience.Stop()
		a.from = reachOf(c.Conn.RemoteAddr())
	}})
	place := req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath() // a query may hold what is nobody's business
	resp, err := w.client.Do(req.WithContext(ctx))
	if err == nil {
		defer resp.Body.Close()
		a.status, a.header = resp.StatusCode, resp.Header
		a.body, err = netguard.ReadBounded(resp.Body, maxDocument)
	}
	if err != nil {
		if outer := req.Context().Err(); errors.Is(outer, context.Canceled) {
			return nil, outer
		}
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		var wrapped *url.Error
		if netguard.Late(err) {
			err = errors.New("it did not answer in time")
		} else if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return a, nil
}

func (w *web) get(ctx context.Context, target, token string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.do(req)
}

func (w *web) post(ctx context.Context, target, media string, body io.Reader, authenticate func(*http.Request)) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Accept", "application/json")
	if authenticate != nil {
		authenticate(req)
	}
	return w.do(req)
}

// object tells whether the answer is a JSON object, by its media type and by what
// it is: hosts of web applications answer every path with 200 and a page.
func (a *answer) object() bool {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	if media != "application/json" && !strings.HasSuffix(media, "+json") {
		return false
	}
	var object map[string]json.RawMessage
	return json.Unmarshal(a.body, &object) == nil && object != nil
}

// decode reads the answer's JSON object into v. Its error does not quote it.
func (a *answer) decode(v any) error {
	if !a.object() {
		return errors.New("the answer is not a JSON object")
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%q is not of the type %s", clean(wrong.Field), wrong.Type)
		}
		return errors.New("the answer is not of the right form")
	}
	return nil
}

// clean makes a stranger's words safe to show in a line, and short: no control
// characters, nothing that turns the direction of writing.
func clean(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ")
	n := 0
	return strings.Map(func(r rune) rune {
		if n++; n > most || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
}
