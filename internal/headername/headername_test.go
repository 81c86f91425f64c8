package headername

import "testing"

func TestReserved(t *testing.T) {
	for name, want := range map[string][2]bool{
		"host": {true, true}, "TE": {true, true}, "proxy-authorization": {true, true}, "mcp-session-id": {true, true},
		"accept": {false, true}, "x-forwarded-for": {false, true}, "x-api-key": {}, "Authorization": {}, "Cookie": {},
	} {
		if got := [2]bool{OfConnection(name), OfGateway(name)}; got != want {
			t.Errorf("%s: of the connection and of the gateway: %v, want %v", name, got, want)
		}
	}
}
