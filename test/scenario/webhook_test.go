//go:build integration

package scenario

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// webhook URL CA starts webhooks over TLS, sets URL to their base and writes their authority
// to the file CA. /check denies calls with the text "secret"; /change replaces the text
// "quiet" by "LOUD", and a call with the text "sneaky" by one of the tool read; /broken
// responds with a status of 500.
func webhookServer(ts *testscript.TestScript, _ bool, args []string) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Request struct {
				Params struct{ Arguments struct{ Text string } }
			} `json:"mcp_request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		answer := `{"allowed":true}`
		switch text := request.Request.Params.Arguments.Text; {
		case r.URL.Path == "/check" && text == "secret":
			answer = `{"allowed":false,"reason":"it is a secret"}`
		case r.URL.Path == "/change" && text == "quiet":
			answer = `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params/arguments/text","value":"LOUD"}]}`
		case r.URL.Path == "/change" && text == "sneaky":
			answer = `{"allowed":true,"patch_type":"json_patch","patch":[{"op":"replace","path":"/mcp_request/params/name","value":"read"}]}`
		}
		w.Write([]byte(answer))
	}))
	ts.Defer(server.Close)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), block, 0o600))
	ts.Setenv(args[0], server.URL)
}
