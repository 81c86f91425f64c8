package authserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"github.com/toolhaven/toolhaven/internal/netguard"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Bounds of clients.
const (
	maxRegistration = 64 << 10         // bytes of a request
	maxSealed       = 6 << 10          // characters of a client_id, which is in URLs
	maxRedirects    = 10               // redirect URIs
	maxName         = 256              // bytes of a name
	documentBytes   = 10 << 10         // bytes of a metadata document
	documentFresh   = 5 * time.Minute  // how long a document is used
	documentFailed  = 30 * time.Second // how long a failure is
	documentsKept   = 256
	documentsAtOnce = 256 // fetches
	documentBurst   = 20  // fetches for one sender; then one each second
)

// The client authentication methods (RFC 7591 section 2).
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
)

// client is an OAuth client.
type client struct {
	ID        string   `json:"-"`
	Name      string   `json:"name,omitempty"`
	Redirects []string `json:"redirects"`
	Method    string   `json:"method"`
	Refresh   bool     `json:"refresh,omitempty"`
	Issued    int64    `json:"issued,omitempty"` // Unix time
	// Voucher is the provider whose software statement has Name and Redirects.
	Voucher string `json:"voucher,omitempty"`
}

// registration is the metadata of a client (RFC 7591 section 2), as far as it counts here.
type registration struct {
	ClientID      string   `json:"client_id,omitempty"`
	Secret        string   `json:"client_secret,omitempty"`
	SecretExpires *int64   `json:"client_secret_expires_at,omitempty"`
	IssuedAt      int64    `json:"client_id_issued_at,omitempty"`
	Name          string   `json:"client_name,omitempty"`
	Redirects     []string `json:"redirect_uris"`
	Method        string   `json:"token_endpoint_auth_method,omitempty"`
	Grants        []string `json:"grant_types,omitempty"`
	Responses     []string `json:"response_types,omitempty"`
	Scope         string   `json:"scope,omitempty"`
	Statement     string   `json:"software_statement,omitempty"`
}

// client checks the metadata.
func (g *registration) client() (*client, *oauthError) {
	invalid := func(format string, args ...any) (*client, *oauthError) {
		return nil, &oauthError{code: "invalid_client_metadata", description: fmt.Sprintf(format, args...)}
	}
	if len(g.Redirects) == 0 || len(g.Redirects) > maxRedirects {
		return nil, &oauthError{code: "invalid_redirect_uri", description: fmt.Sprintf("redirect_uris must have 1 to %d URIs", maxRedirects)}
	}
	for _, r := range g.Redirects {
		if err := checkRedirect(r); err != nil {
			return nil, &oauthError{code: "invalid_redirect_uri", description: err.Error()}
		}
	}
	if len(g.Name) > maxName || !utf8.ValidString(g.Name) {
		return invalid("client_name has at most %d bytes", maxName)
	}
	c := &client{Name: plaintext.Line(g.Name), Redirects: g.Redirects, Method: cmp.Or(g.Method, methodNone)}
	if c.Method != methodNone && c.Method != methodBasic && c.Method != methodPost {
		return invalid("token_endpoint_auth_method %.50q is not supported; use none", g.Method)
	}
	grants := g.Grants
	if len(grants) == 0 {
		grants = []string{"authorization_code"}
	}
	if !slices.Contains(grants, "authorization_code") {
		return invalid("grant_types must have authorization_code")
	}
	c.Refresh = slices.Contains(grants, "refresh_token")
	if len(g.Responses) > 0 && !slices.Contains(g.Responses, "code") {
		return invalid("response_types must have code")
	}
	return c, nil
}

// register is the registration endpoint (RFC 7591 section 3). The client_id is the sealed
// registration: nothing is stored, so a flood of registrations fills nothing.
func (s *clients) register(w http.ResponseWriter, r *http.Request) {
	if !s.registrations.allow(s.cfg.Address(r)) {
		s.fail(w, tooMany("registrations"))
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		writeError(w, http.StatusBadRequest, &oauthError{code: "invalid_client_metadata", description: "the content type must be application/json"})
		return
	}
	body, err := netguard.ReadBounded(r.Body, maxRegistration)
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, &oauthError{code: "invalid_client_metadata", description: "the registration is too large"})
		return
	}
	var g registration
	if err := json.Unmarshal(body, &g); err != nil {
		writeError(w, http.StatusBadRequest, &oauthError{code: "invalid_client_metadata", description: "the registration is not a JSON object of client metadata"})
		return
	}
	voucher, fault := s.vouched(r.Context(), &g)
	if fault != nil {
		writeError(w, cmp.Or(fault.status, http.StatusBadRequest), fault)
		return
	}
	c, fault := g.client()
	if fault != nil {
		writeError(w, http.StatusBadRequest, fault)
		return
	}
	c.Voucher = voucher
	keys, err := s.ring.get()
	if err != nil {
		s.unavailable(w, err)
		return
	}
	c.Issued = s.now().Unix()
	plain, err := json.Marshal(c)
	if err != nil {
		s.unavailable(w, err)
		return
	}
	c.ID = keys.close(s.clientPurpose(), plain)
	if len(c.ID) > maxSealed {
		writeError(w, http.StatusBadRequest, &oauthError{code: "invalid_client_metadata", description: "the redirect URIs are too long together"})
		return
	}
	// What is registered is returned (RFC 7591 section 3.2.1).
	answer := registration{
		ClientID: c.ID, IssuedAt: c.Issued, Name: c.Name, Redirects: c.Redirects, Method: c.Method,
		Grants: []string{"authorization_code"}, Responses: []string{"code"}, Scope: strings.Join(s.scopesFor(strings.Fields(g.Scope), true), " "),
		Statement: g.Statement,
	}
	if c.Refresh {
		answer.Grants = append(answer.Grants, "refresh_token")
	}
	if c.Method != methodNone {
		answer.Secret, answer.SecretExpires = clientSecret(keys.clients[0], c.ID), new(int64) // 0: it does not expire
	}
	writeJSON(w, http.StatusCreated, answer)
}

// clientPurpose binds sealed client ids to this server.
func (s *clients) clientPurpose() string { return "client of " + s.cfg.Spec.Issuer }

// clientSecret derives the secret of a registered client from its id, so that it need not be
// stored.
func clientSecret(key []byte, id string) string {
	return base64.RawURLEncoding.EncodeToString(tag(key, id))
}

// errUnknownClient: the client_id is neither registered here nor a metadata document.
var errUnknownClient = errors.New("the client is not known here; it must register again")

// errTooMany: the sender of the request has named too many metadata documents.
var errTooMany = errors.New("too many metadata documents of clients from one address")

// get returns the client of an id, which the sender of r sent.
func (s *clients) get(r *http.Request, id string) (*client, error) {
	if strings.HasPrefix(id, "https://") || strings.HasPrefix(id, "http://") {
		return s.documents.get(r.Context(), s.cfg.Address(r), id)
	}
	if id == "" || len(id) > maxSealed {
		return nil, errUnknownClient
	}
	keys, err := s.ring.get()
	if err != nil {
		return nil, errUnavailable
	}
	plain, err := keys.open(s.clientPurpose(), id)
	if err != nil {
		return nil, errUnknownClient
	}
	c := &client{ID: id}
	if err := json.Unmarshal(plain, c); err != nil {
		return nil, errUnknownClient
	}
	return c, nil
}

// authenticate returns the client of a request to the token endpoint (RFC 6749 section
// 2.3.1). A client with a secret must send it by one of the two methods, never both.
func (s *clients) authenticate(r *http.Request, form url.Values) (*client, *oauthError) {
	invalid := func(description string) *oauthError {
		return &oauthError{code: "invalid_client", description: description, status: http.StatusUnauthorized}
	}
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		user, errUser := url.QueryUnescape(user)
		password, errPassword := url.QueryUnescape(password)
		if errUser != nil || errPassword != nil || secret != "" || id != "" && id != user {
			return nil, &oauthError{code: "invalid_request", description: "the client authenticates in two ways, or with a broken one"}
		}
		id, secret = user, password
	}
	c, err := s.get(r, id)
	switch {
	case errors.Is(err, errUnavailable):
		return nil, unavailableError
	case errors.Is(err, errTooMany):
		return nil, tooMany("metadata documents")
	case err != nil:
		return nil, invalid(errUnknownClient.Error())
	case c.Method == methodNone:
		if secret != "" {
			return nil, invalid("the client is registered without a secret, and sent one")
		}
		return c, nil
	}
	keys, err := s.ring.get()
	if err != nil {
		return nil, unavailableError
	}
	sent, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || !verifyTag(keys.clients, c.ID, sent) {
		return nil, invalid("the client's secret is missing or wrong")
	}
	return c, nil
}

// documents are client id metadata documents (draft-ietf-oauth-client-id-metadata-document):
// a client_id that is the URL of the client's metadata.
type documents struct {
	http *http.Client
	// plainHTTP permits documents of this machine without TLS, for clients in development.
	plainHTTP bool
	fetches   singleflight.Group
	// unknown bounds the fetches that the requests of one sender cause, at the token endpoint
	// too, and fetching those at a time: a sender's limit is far below it, so that one sender
	// does not keep others from a login.
	unknown  limiter
	fetching chan struct{}

	mu   sync.Mutex
	kept map[string]keptDocument
}

type keptDocument struct {
	client *client
	err    error
	until  time.Time
}

// get returns the client of a document's URL, which was sent from an address.
func (d *documents) get(ctx context.Context, address, id string) (*client, error) {
	if err := d.check(id); err != nil {
		return nil, err
	}
	d.mu.Lock()
	kept, ok := d.kept[id]
	d.mu.Unlock()
	if ok && time.Now().Before(kept.until) {
		return kept.client, kept.err
	}
	if !d.unknown.allow(address) {
		return nil, errTooMany
	}
	// The fetch goes on for others when this request ends.
	result := d.fetches.DoChan(id, func() (any, error) {
		select {
		case d.fetching <- struct{}{}:
			defer func() { <-d.fetching }()
		default:
			return nil, errUnavailable
		}
		c, err := d.fetch(context.WithoutCancel(ctx), id)
		until := time.Now().Add(documentFresh)
		if err != nil {
			until = time.Now().Add(documentFailed)
		}
		d.keep(id, keptDocument{c, err, until})
		return c, err
	})
	select {
	case r := <-result:
		c, _ := r.Val.(*client)
		return c, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keep stores a result, in place of the one that expires first when there are too many.
func (d *documents) keep(id string, k keptDocument) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.kept) >= documentsKept {
		oldest := ""
		for other, o := range d.kept {
			if oldest == "" || o.until.Before(d.kept[oldest].until) {
				oldest = other
			}
		}
		delete(d.kept, oldest)
	}
	d.kept[id] = k
}

// check is section 3 of the draft: an https URL with a path, without a fragment, user
// information or dot segments.
func (d *documents) check(id string) error {
	u, err := url.Parse(id)
	switch {
	case err != nil || len(id) > maxRedirect:
		return errUnknownClient
	case u.Scheme != "https" && !(d.plainHTTP && isLoopback(u.Hostname())):
		return errors.New("the URL of a client's metadata must be https")
	case u.Path == "" || u.Path == "/" || u.User != nil || strings.Contains(id, "#"):
		return errors.New("the URL of a client's metadata must have a path, and no fragment or user information")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), func(s string) bool { return s == "." || s == ".." }):
		return errors.New("the URL of a client's metadata must not have dot segments")
	}
	return nil
}

func (d *documents) fetch(ctx context.Context, id string) (*client, error) {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("the client's metadata cannot be used: "+format, args...)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return nil, errUnknownClient
	}
	req.Header.Set("Accept", "application/json")
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, fault("it cannot be fetched")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fault("its server answered with status %d", resp.StatusCode)
	}
	body, err := netguard.ReadBounded(resp.Body, documentBytes)
	if err != nil {
		return nil, fault("it has more than %d bytes, or ended early", documentBytes)
	}
	var g registration
	if err := json.Unmarshal(body, &g); err != nil {
		return nil, fault("it is not a JSON object of client metadata")
	}
	if g.ClientID != id {
		return nil, fault("its client_id is not its URL")
	}
	if g.Secret != "" || cmp.Or(g.Method, methodNone) != methodNone {
		return nil, fault("a client of this kind has no secret")
	}
	c, invalid := g.client()
	if invalid != nil {
		return nil, fault("%s", invalid.description)
	}
	c.ID = id
	return c, nil
}
