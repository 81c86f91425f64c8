package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
	"github.com/toolhaven/toolhaven/internal/strictjson"
)

// maxBody bounds a response, in bytes.
const maxBody = 1 << 20

// Response is an HTTP response, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Sender sends a request and reads the response. It follows no redirects. Its
// errors name the URL without the query.
type Sender func(*http.Request) (*Response, error)

// NewSender returns a Sender that uses client, which decides on addresses and
// timeouts.
func NewSender(client *http.Client) Sender {
	c := *client
	// A redirect would lead a token, or the trust in a document, to another place.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(req *http.Request) (*Response, error) {
		if req.Header.Get("Accept") == "" {
			req.Header.Set("Accept", "application/json")
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, transportError(req.URL, err)
		}
		defer resp.Body.Close()
		body, err := netguard.ReadBounded(resp.Body, maxBody)
		if err != nil {
			return nil, transportError(req.URL, err)
		}
		return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
	}
}

// transportError names the URL without its query, which may hold secrets.
func transportError(u *url.URL, err error) error {
	var wrapped *url.Error
	if netguard.Late(err) {
		err = errors.New("it did not answer in time")
	} else if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("%s://%s%s: %w", u.Scheme, u.Host, u.EscapedPath(), err)
}

// ErrNotObject: the body is not a JSON object. Web applications return a page with
// status 200 for every path.
var ErrNotObject = errors.New("it is not a JSON object")

// maxDepth bounds the nesting of a document.
const maxDepth = 32

// lowerCase are names as OAuth has them.
var lowerCase = regexp.MustCompile(`^[a-z0-9_]+$`)

// Decode decodes a JSON object into v. Two members of one name are an error,
// because readers differ in which one they use (RFC 7493 section 2.3). Members in
// another case than OAuth's, which encoding/json would accept, are ignored. Errors
// quote only names of members.
func Decode(body []byte, v any) error {
	s := strictjson.New(body, maxDepth, strictjson.UniqueNames|strictjson.WholeCharacters|strictjson.UTF8)
	if s.Err() == nil && s.Kind() != '{' {
		return ErrNotObject
	}
	members := map[string]json.RawMessage{}
	for items := s.Enter(); s.Next(&items); {
		if name := s.Name(); lowerCase.MatchString(name) {
			members[name] = json.RawMessage(s.Value())
		} else {
			s.Value()
		}
	}
	if err := s.End(); err != nil {
		var fault *strictjson.Fault
		switch {
		case !errors.As(err, &fault):
		case fault.Problem == strictjson.NameTwice:
			return errors.New("it has two members of one name")
		case fault.Problem == strictjson.TooDeep:
			return errors.New("it is nested too deeply")
		}
		return ErrNotObject
	}
	exact, err := json.Marshal(members)
	if err != nil {
		return errors.New("it is not of the right form")
	}
	if err := json.Unmarshal(exact, v); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%q is not of the type %s", plaintext.Excerpt(wrong.Field, maxShown), wrong.Type)
		}
		return errors.New("it is not of the right form")
	}
	return nil
}

// maxShown bounds a server's text in an error, in characters.
const maxShown = 300

// Refusal is an error response of an authorization server (RFC 6749 sections 4.1.2.1
// and 5.2, RFC 7591 section 3.2.2), cleaned of secrets and of control characters.
type Refusal struct {
	Code        string // such as "invalid_grant"; "" when the response has none
	Description string // may be ""
	Status      int    // of HTTP; 0 for an authorization response
}

func (r *Refusal) Error() string {
	text := "it refuses: " + r.Code
	if r.Code == "" {
		text = fmt.Sprintf("it answers %d %s", r.Status, http.StatusText(r.Status))
	}
	if r.Description != "" {
		text += " (" + r.Description + ")"
	}
	return text
}

// Refusal reads an error response. secrets are removed from its text.
func (r *Response) Refusal(secrets ...string) *Refusal {
	var body struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if Decode(r.Body, &body) != nil {
		return &Refusal{Status: r.Status}
	}
	return &Refusal{Status: r.Status, Code: Hide(body.Code, secrets...), Description: Hide(body.Description, secrets...)}
}

// Hide is the text of a server for an error: cleaned, cut, and without the secrets.
func Hide(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.NewReplacer(secret, "(hidden)", url.QueryEscape(secret), "(hidden)").Replace(text)
		}
	}
	return plaintext.Excerpt(text, maxShown)
}

// AboutSubject reports whether a token endpoint refused the token that a request contained
// (RFC 6749 section 5.2, RFC 8693 section 2.2.2), and not the client or the target.
func (r *Refusal) AboutSubject() bool {
	return r.Status < 500 && (r.Code == "invalid_grant" || r.Code == "invalid_request" || r.Code == "access_denied")
}
