package credential

import (
	"errors"
	"net/http"
	"testing"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

func TestHeadersAndBearer(t *testing.T) {
	t.Parallel()
	s := newServer(t, ok)
	token := "one"
	rt := Transport(http.DefaultTransport, Headers{"x-api-key": {"k"}}, Bearer(func() (string, error) { return token, nil }))
	for _, want := range []string{"one", "two"} {
		token = want
		if _, err := post(t.Context(), rt, s.URL); err != nil {
			t.Fatal(err)
		}
		h := s.headers[len(s.headers)-1]
		if h.Get("Authorization") != "Bearer "+want || h.Get("X-Api-Key") != "k" {
			t.Errorf("%v", h)
		}
	}
}

// A token that cannot be read, or sent, fails the request.
func TestBearer_Fails(t *testing.T) {
	t.Parallel()
	s := newServer(t, ok)
	for _, c := range []struct {
		token string
		err   error
	}{{"", nil}, {"a\nb", nil}, {"", errors.New("no such file")}} {
		var rpc *mcp.Error
		_, err := post(t.Context(), Transport(http.DefaultTransport, Bearer(func() (string, error) { return c.token, c.err })), s.URL)
		if !errors.As(err, &rpc) || rpc.Status != 503 {
			t.Errorf("%q: %v", c.token, err)
		}
	}
	if s.requests.Load() != 0 {
		t.Error("a request was sent")
	}
}

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"X-Api-Key": true, "Authorization": true, "cookie": true, "x_y": true,
		"": false, "a b": false, "Host": false, "connection": false, "TE": false, "Mcp-Session-Id": false, "Proxy-Authorization": false,
		"X-Forwarded-For": false, "Content-Type": false, "a\r\nb": false,
	} {
		if err := CheckHeader(name, "v"); (err == nil) != valid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if CheckHeader("X-A", "a\nb") == nil {
		t.Error("a value of two lines is accepted")
	}
}
