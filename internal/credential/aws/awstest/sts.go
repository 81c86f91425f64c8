package awstest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// STS answers AssumeRoleWithWebIdentity (AWS STS API reference, version 2011-06-15), and knows
// the credentials that it issued. It does not verify tokens.
type STS struct {
	// Refuse returns the status and the code of an error for a request; 0 for none. Nil
	// refuses nothing.
	Refuse func(form url.Values) (status int, code string)
	// Now is the clock.
	Now func() time.Time

	mu     sync.Mutex
	issued map[string]Session // by key id
	forms  []url.Values
}

// Session is what credentials were issued for.
type Session struct {
	Secret

	Role, Name, Identity string // Identity is the web identity token
	Expires              time.Time
}

// NewSTS returns an STS.
func NewSTS() *STS { return &STS{Now: time.Now, issued: map[string]Session{}} }

// Requests returns the requests that were received.
func (s *STS) Requests() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]url.Values(nil), s.forms...)
}

var (
	legalName = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	legalRole = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/.{1,}$`)
)

// ServeHTTP implements [http.Handler].
func (s *STS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	form := r.PostForm
	s.mu.Lock()
	s.forms = append(s.forms, form)
	n := len(s.forms)
	s.mu.Unlock()
	seconds, err := strconv.Atoi(form.Get("DurationSeconds"))
	switch {
	case r.Method != http.MethodPost || form.Get("Action") != "AssumeRoleWithWebIdentity" || form.Get("Version") != "2011-06-15":
		refuse(w, http.StatusBadRequest, "InvalidAction", "the action is unknown")
		return
	case r.Header.Get("Authorization") != "":
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch", "the request is signed, and need not be")
		return
	case err != nil || seconds < 900 || seconds > 43200 || !legalName.MatchString(form.Get("RoleSessionName")) || !legalRole.MatchString(form.Get("RoleArn")):
		refuse(w, http.StatusBadRequest, "ValidationError", fmt.Sprintf("1 validation error detected: Value '%s' failed", form.Get("WebIdentityToken")))
		return
	}
	if s.Refuse != nil {
		if status, code := s.Refuse(form); status != 0 {
			refuse(w, status, code, "refused: "+form.Get("WebIdentityToken"))
			return
		}
	}
	session := Session{
		Secret: Secret{Key: fmt.Sprintf("secret/%d", n), Token: fmt.Sprintf("session+%d/==", n)},
		Role:   form.Get("RoleArn"), Name: form.Get("RoleSessionName"), Identity: form.Get("WebIdentityToken"),
		Expires: s.Now().Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second),
	}
	id := fmt.Sprintf("ASIA%012d", n)
	s.mu.Lock()
	s.issued[id] = session
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>`+
		`<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken><Expiration>%s</Expiration></Credentials>`+
		`</AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>%d</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>`,
		id, session.Key, session.Token, session.Expires.Format(time.RFC3339), n)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	var escaped strings.Builder
	_ = xml.EscapeText(&escaped, []byte(message))
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>1</RequestId></ErrorResponse>`, code, &escaped)
}

// Session returns the session whose credentials signed a received request. Its error is what
// an AWS service would refuse.
func (s *STS) Session(r *http.Request, body []byte, scope Scope) (Session, error) {
	var used Session
	err := Verify(r, body, s.Now(), scope, func(id string) (Secret, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		session, found := s.issued[id]
		used = session
		return session.Secret, found && s.Now().Before(session.Expires)
	})
	return used, err
}

// Guard returns a handler that passes on what is signed for the scope, with the role of the
// session in the header X-Role, and refuses everything else, as an AWS service does.
func (s *STS) Guard(scope Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		session, err := s.Session(r, body, scope)
		if err != nil {
			w.Header().Set("X-Amzn-Errortype", "UnrecognizedClientException")
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("X-Role", session.Role)
		r.Header.Set("X-Session", session.Name)
		next.ServeHTTP(w, r)
	})
}
