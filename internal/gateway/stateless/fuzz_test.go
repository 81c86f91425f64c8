package stateless

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/gateway/httpd"
	"github.com/toolhaven/toolhaven/internal/mcp"
	"github.com/toolhaven/toolhaven/internal/seal"
)

// Only a requestState that was sealed for the request opens, and the server receives its own
// unchanged.
func FuzzRequestState(f *testing.F) {
	f.Add("state", []byte(`{"name":"x"}`), "")
	f.Add("\x00\xff", []byte(`{"a":[1,{"b":2}],"_meta":{}}`), "AAAA")
	sealer, err := seal.New(seal.NewKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, server string, params []byte, forged string) {
		g := New(&httpd.Core{Sealer: sealer})
		x := &exchange.Exchange{Client: &exchange.Client{}, Request: &mcp.Message{Method: mcp.MethodToolsCall, Params: params}}
		if _, err := g.unseal(x, forged); err == nil {
			t.Fatalf("%q opens", forged)
		}
		result, _ := json.Marshal(map[string]string{"resultType": mcp.ResultInputRequired, "requestState": server})
		sealed, err := g.sealServerState(x, result)
		if err != nil {
			t.Fatal(err)
		}
		token, _, _ := mcp.LookupString(sealed, "requestState")
		var was struct{ RequestState string }
		if err := json.Unmarshal(result, &was); err != nil {
			t.Fatal(err)
		}
		st, err := g.unseal(x, token)
		if err != nil || st.Server != was.RequestState || time.Since(time.UnixMicro(st.Issued)) > stateTime {
			t.Fatalf("%+v, %v; want %q", st, err, was.RequestState)
		}
	})
}

// A request of the stateless era that is accepted has the same values in the headers and in
// the body.
func FuzzHeaders(f *testing.F) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	f.Add("2026-07-28", "tools/call", "x", "tools/call", []byte(`{"name":"x",`+meta+`}`))
	f.Add("2026-07-28", "resources/read", "=?base64?eA==?=", "resources/read", []byte(`{"uri":"x",`+meta+`}`))
	f.Fuzz(func(t *testing.T, version, headerMethod, headerName, method string, params []byte) {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header[mcp.HeaderVersion] = []string{version}
		r.Header[mcp.HeaderMethod] = []string{headerMethod}
		r.Header[mcp.HeaderName] = []string{headerName}
		m, err := mcp.Parse((&mcp.Message{ID: mcp.IntID(1), Method: method, Params: params}).Encode())
		if err != nil || m.Kind() != mcp.Request {
			return
		}
		k, err := httpd.ReadEra(r, m)
		if err != nil || !k.IsStateless() {
			return
		}
		client, err := identify(r, m, k)
		if err == nil {
			err = checkHeaders(r, m)
		}
		if err != nil {
			return
		}
		decoded, _ := mcp.DecodeHeader(headerMethod)
		declared, _, err := mcp.LookupString(m.Params, "_meta", mcp.MetaVersion)
		if err != nil || string(client.Version) != version || declared != version || decoded != m.Method || !json.Valid(client.Capabilities) {
			t.Fatalf("taken: %q %q %q %s as %+v", version, headerMethod, headerName, m.Encode(), client)
		}
		if name, found, _ := mcp.LookupName(m.Method, m.Params); found {
			if decoded, _ := mcp.DecodeHeader(headerName); decoded != name {
				t.Fatalf("taken with the name %q for %q", headerName, name)
			}
		}
	})
}
