package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/mcp"
)

// hookServer is a webhook over TLS, and the file with its authority.
func hookServer(t testing.TB, h http.HandlerFunc) (url, ca string) {
	t.Helper()
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	if err := os.WriteFile(ca, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return srv.URL, ca
}

func responds(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const callParams = `{"name":"add","arguments":{"n":12345678901234567890},"_meta":{"progressToken":1}}`

func callOf(params string) *exchange.Exchange {
	return &exchange.Exchange{
		Client:  &exchange.Client{},
		Caller:  &exchange.Caller{Issuer: "https://idp", Subject: "ann", Claims: map[string]any{"team": "a"}},
		Source:  exchange.Source{Address: "192.0.2.7:99"},
		Request: &mcp.Message{ID: mcp.IntID(7), Method: mcp.MethodToolsCall, Params: json.RawMessage(params)},
	}
}

// through sends a call through the webhooks and returns the params that the server receives,
// "" for none.
func through(t *testing.T, cfg Config) (received string, err error) {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg, "w", nil, secretsOfTests, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	do := s.Wrap(func(_ context.Context, x *exchange.Exchange) (*mcp.Message, error) {
		if x.Request.ID != mcp.IntID(7) || x.Request.Method != mcp.MethodToolsCall {
			t.Errorf("the request is %s", x.Request.Encode())
		}
		received = string(x.Request.Params)
		return mcp.NewResult(x.Request.ID, json.RawMessage(`{}`)), nil
	})
	_, err = do(t.Context(), callOf(callParams))
	return received, err
}

func hookOf(url, ca, policy string) Hook {
	return Hook{Name: "h", URL: url, FailurePolicy: policy, Timeout: Timeout(time.Second), TLS: &TLS{CABundlePath: ca}}
}

func TestConfig_Validate(t *testing.T) {
	good := Hook{Name: "a", URL: "https://example.com/hook", FailurePolicy: Fail}
	with := func(change func(*Hook)) Config {
		h := good
		change(&h)
		return Config{Validating: []Hook{h}}
	}
	for want, cfg := range map[string]Config{
		"":                          {Validating: []Hook{good}, Mutating: []Hook{good}},
		"is there twice":            {Mutating: []Hook{good, good}},
		"webhook 1 has no name":     with(func(h *Hook) { h.Name = "" }),
		"plain HTTP":                with(func(h *Hook) { h.URL = "http://example.com/hook" }),
		"user information":          with(func(h *Hook) { h.URL = "https://a:b@example.com/" }),
		"failure_policy is missing": with(func(h *Hook) { h.FailurePolicy = "" }),
		`failure_policy "x"`:        with(func(h *Hook) { h.FailurePolicy = "x" }),
		"choose 1s to 30s":          with(func(h *Hook) { h.Timeout = Timeout(time.Minute) }),
		"hmac_secret_ref":           with(func(h *Hook) { h.HMACSecretRef = "a,b" }),
		"belong together":           with(func(h *Hook) { h.TLS = &TLS{ClientCertPath: "/a"} }),
		"ca_bundle_path":            with(func(h *Hook) { h.TLS = &TLS{CABundlePath: "a"} }),
	} {
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := with(func(h *Hook) { h.URL, h.TLS = "http://example.com/hook", &TLS{InsecureSkipVerify: true} }).Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfig_Merge(t *testing.T) {
	a, b, c := Hook{Name: "a"}, Hook{Name: "b"}, Hook{Name: "a", URL: "new"}
	got := Config{Validating: []Hook{a, b}}.Merge(Config{Validating: []Hook{c, {Name: "d"}}, Mutating: []Hook{a}})
	if len(got.Validating) != 3 || got.Validating[0].URL != "new" || got.Validating[1].Name != "b" || got.Validating[2].Name != "d" || len(got.Mutating) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestTimeout_Forms(t *testing.T) {
	for text, want := range map[string]time.Duration{`"5s"`: 5 * time.Second, `2000000000`: 2 * time.Second} {
		var got Timeout
		if err := json.Unmarshal([]byte(text), &got); err != nil || time.Duration(got) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(got), err)
		}
	}
	for _, text := range []string{`true`, `"soon"`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(Timeout)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// What a webhook receives, and the signature by which it can verify that.
func TestStage_Request(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := make(chan map[string]any, 1)
	url, ca := hookServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, []byte("s3cret"))
		fmt.Fprintf(mac, "%s.%s", r.Header.Get("X-ToolHive-Timestamp"), body)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); r.Header.Get("X-ToolHive-Signature") != want {
			t.Errorf("the signature is %s, want %s", r.Header.Get("X-ToolHive-Signature"), want)
		}
		var request map[string]any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&request); err != nil {
			t.Error(err)
		}
		got <- request
		responds(200, `{"version":"v0.1.0","uid":"x","allowed":true}`)(w, r)
	})
	hook := hookOf(url, ca, Fail)
	var request map[string]any
	for _, hook.HMACSecretRef = range []string{key, "signing-key"} {
		received, err := through(t, Config{Validating: []Hook{hook}})
		if err != nil || received != callParams {
			t.Fatalf("%s, %v", received, err)
		}
		request = <-got
	}
	text, _ := json.Marshal(request)
	for _, want := range []string{`"version":"v0.1.0"`, `"principal":{"claims":{"team":"a"},"iss":"https://idp","sub":"ann"}`, `"method":"tools/call"`, `"n":12345678901234567890`,
		`"server_name":"w"`, `"source_ip":"192.0.2.7:99"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s has no %s", text, want)
		}
	}
}

func TestStage_Responses(t *testing.T) {
	for _, row := range []struct {
		name                 string
		handler              http.HandlerFunc
		validating, mutating int  // HTTP status with failure_policy fail; 0 is permitted
		decided              bool // the failure policy does not matter
	}{
		{"allowed", responds(200, `{"allowed":true}`), 0, 0, true},
		{"not allowed", responds(200, `{"allowed":false,"reason":"no\u001b[2J"}`), 403, 403, true},
		{"422", responds(422, ``), 403, 422, true},
		{"500", responds(500, ``), 403, 500, false},
		{"redirect", responds(302, ``), 403, 500, false},
		{"not JSON", responds(200, `<html>`), 403, 500, false},
		{"no decision", responds(200, `{}`), 403, 500, false},
		{"null", responds(200, `null`), 403, 500, false},
		{"another type", responds(200, `{"allowed":"true"}`), 403, 500, false},
		{"10 MB", responds(200, `{"allowed":true,"message":"`+strings.Repeat("x", 10<<20)+`"}`), 403, 500, false},
		{"no response", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the end of the connection is noticed after that
			<-r.Context().Done()
		}, 403, 500, false},
		{"connection closed", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 403, 500, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url, ca := hookServer(t, row.handler)
			for _, policy := range []string{Fail, Ignore} {
				for kind, want := range map[string]int{"validating": row.validating, "mutating": row.mutating} {
					cfg := Config{Validating: []Hook{hookOf(url, ca, policy)}}
					if kind == "mutating" {
						cfg = Config{Mutating: cfg.Validating}
					}
					if policy == Ignore && !row.decided {
						want = 0
					}
					received, err := through(t, cfg)
					if want == 0 {
						if err != nil || received != callParams {
							t.Errorf("%s, %s: %s, %v", kind, policy, received, err)
						}
						continue
					}
					var rpc *mcp.Error
					if !errors.As(err, &rpc) || rpc.Status != want || received != "" || strings.ContainsRune(rpc.Message, 0x1b) {
						t.Errorf("%s, %s: %#v, the server received %q; want %d", kind, policy, err, received, want)
					}
				}
			}
		})
	}
}

func TestStage_Patches(t *testing.T) {
	for _, row := range []struct {
		name, answer string
		want         string // params, or "" for a fault
	}{
		{"no patch", `{"allowed":true}`, callParams},
		{"an argument", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params/arguments/n","value":8}]}`, `{"name":"add","arguments":{"n":8},"_meta":{"progressToken":1}}`},
		{"one added", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"add","path":"/mcp_request/params/arguments/m","value":12345678901234567890}]}`, `{"name":"add","arguments":{"n":12345678901234567890,"m":12345678901234567890},"_meta":{"progressToken":1}}`},
		{"another patch type", `{"allowed":true,"patch_type":"merge","patch":[{"op":"remove","path":"/mcp_request/params"}]}`, ""},
		{"outside of the call", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/principal/sub","value":"root"}]}`, ""},
		{"the method", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/method","value":"tools/list"}]}`, ""},
		{"the id", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/id","value":1}]}`, ""},
		{"a prefix", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"add","path":"/mcp_requestx/params/a","value":1}]}`, ""},
		{"copied from outside", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"copy","from":"/mcp_request/id","path":"/mcp_request/params/arguments/n"}]}`, ""},
		{"_meta", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params/_meta/progressToken","value":2}]}`, ""},
		{"params that are no object", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params","value":7}]}`, ""},
		{"what is not there", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"remove","path":"/mcp_request/params/nothing"}]}`, ""},
		{"an unknown operation", `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"explode","path":"/mcp_request/params/a"}]}`, ""},
		{"no object", `{"allowed":true,"patch_type":"json_patch","patch":[7]}`, ""},
		{"too many", `{"allowed":true,"patch_type":"json_patch","patch":[` + strings.Repeat(`{"op":"test","path":"/mcp_request/params/name","value":"add"},`, 1000) + `{"op":"test","path":"/mcp_request/params/name","value":"add"}]}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url, ca := hookServer(t, responds(200, row.answer))
			received, err := through(t, Config{Mutating: []Hook{hookOf(url, ca, Fail)}})
			if row.want == "" {
				var rpc *mcp.Error
				if !errors.As(err, &rpc) || rpc.Status != http.StatusInternalServerError || received != "" {
					t.Errorf("%v, the server received %q", err, received)
				}
				received, err = through(t, Config{Mutating: []Hook{hookOf(url, ca, Ignore)}})
				row.want = callParams
			}
			if err != nil || received != row.want {
				t.Errorf("%v, the server received\n%s, want\n%s", err, received, row.want)
			}
		})
	}
}

// A server with another authority is not accepted, unless that is configured.
func TestStage_Certificates(t *testing.T) {
	url, _ := hookServer(t, responds(200, `{"allowed":true}`))
	if _, err := through(t, Config{Validating: []Hook{hookOf(url, "", Fail)}}); err == nil {
		t.Error("an unknown authority is accepted")
	}
	hook := hookOf(url, "", Fail)
	hook.TLS.InsecureSkipVerify = true
	if _, err := through(t, Config{Validating: []Hook{hook}}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{Validating: []Hook{{Name: "a", URL: url, TLS: &TLS{ClientCertPath: "/none", ClientKeyPath: "/none"}}}}, "w", nil, secretsOfTests, nil); err == nil {
		t.Error("a client certificate that is not there is accepted")
	}
	if _, err := New(Config{Validating: []Hook{{Name: "a", URL: url, HMACSecretRef: "/none"}}}, "w", nil, secretsOfTests, nil); err == nil {
		t.Error("a key that is not there is accepted")
	}
}

func FuzzPatched(f *testing.F) {
	f.Add(`{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params/arguments/n","value":8}]}`)
	f.Add(`{"patch_type":"json_patch","patch":[{"op":"move","from":"/mcp_request/params/a","path":"/mcp_request/params/b/0"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var a answer
		if json.Unmarshal([]byte(text), &a) != nil {
			return
		}
		x, err := patched(callOf(callParams), &a)
		if err != nil {
			return
		}
		if meta, _, _ := mcp.Lookup(x.Request.Params, "_meta"); x.Request.Method != mcp.MethodToolsCall || string(meta) != `{"progressToken":1}` {
			t.Errorf("%s makes %s", text, x.Request.Encode())
		}
	})
}

func secretsOfTests(name string) (string, error) {
	if name != "signing-key" {
		return "", fmt.Errorf("no such secret: %q", name)
	}
	return "s3cret", nil
}

func TestNew_ReportsAMissingSecret(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Validating: []Hook{{Name: "a", URL: "https://127.0.0.1/", HMACSecretRef: "other"}}}, "w", nil, secretsOfTests, nil)
	if err == nil || !strings.Contains(err.Error(), `hmac_secret_ref: no such secret: "other"`) {
		t.Error(err)
	}
}
