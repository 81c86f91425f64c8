package oauth

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRegister(t *testing.T) {
	for _, row := range []struct {
		rule, method string
		status       int
		body         string
		want         Registered
		fault        string
	}{
		{"RFC 7591 3.2.1: without a secret", MethodNone, 201, `{"client_id":"c"}`, Registered{Client: Client{ID: "c", Method: MethodNone}}, ""},
		{"RFC 7591 3.2.1: with a secret", MethodBasic, 201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":4102444800}`,
			Registered{Client{"c", "s", MethodBasic}, time.Unix(4102444800, 0)}, ""},
		{"a secret that does not expire", MethodBasic, 201, `{"client_id":"c","client_secret":"s","client_secret_expires_at":0}`, Registered{Client: Client{"c", "s", MethodBasic}}, ""},
		{"the server chooses the method", MethodNone, 200, `{"client_id":"c","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}`, Registered{Client: Client{"c", "s", MethodPost}}, ""},
		{"a method that is not supported", MethodBasic, 201, `{"client_id":"c","token_endpoint_auth_method":"private_key_jwt"}`, Registered{}, "private_key_jwt"},
		{"no secret", MethodBasic, 201, `{"client_id":"c"}`, Registered{}, "no usable client_secret"},
		{"no client id", MethodNone, 201, `{}`, Registered{}, "no usable client_id"},
		{"RFC 6749 A.1: control characters", MethodNone, 201, `{"client_id":"c\n"}`, Registered{}, "no usable client_id"},
		{"another redirect URI", MethodNone, 201, `{"client_id":"c","redirect_uris":["https://other.example/"]}`, Registered{}, "another redirect URI"},
		{"RFC 7493 2.3: a name twice", MethodNone, 201, `{"client_id":"c","client_id":"d"}`, Registered{}, "two members"},
		{"RFC 7591 3.2.2: refused", MethodNone, 400, `{"error":"invalid_software_statement","error_description":"not the-initial-token"}`, Registered{}, "invalid_software_statement (not (hidden))"},
		{"a web page", MethodNone, 200, `<html>`, Registered{}, "not a JSON object"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			var sent string
			send := func(r *http.Request) (*Response, error) {
				body, _ := io.ReadAll(r.Body)
				sent = r.Header.Get("Authorization") + " " + string(body)
				return &Response{Status: row.status, Body: []byte(row.body)}, nil
			}
			got, err := Register(t.Context(), send, "https://as.example/register", "the-initial-token", &ClientMetadata{
				Name: "n", RedirectURIs: []string{"https://gateway.example/callback"}, Method: row.method, SoftwareID: "id",
			})
			if !strings.HasPrefix(sent, "Bearer the-initial-token {") || !strings.Contains(sent, `"software_id":"id"`) {
				t.Errorf("sent %s", sent)
			}
			if row.fault != "" {
				if err == nil || !strings.Contains(err.Error(), row.fault) {
					t.Errorf("got %v, want %q", err, row.fault)
				}
				var refused *Refusal
				if row.status == 400 && !errors.As(err, &refused) {
					t.Errorf("%T", err)
				}
				return
			}
			if err != nil || *got != row.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
