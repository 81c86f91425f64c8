package httpconn

import "testing"

func TestEndpoint_RelativeOrAbsolute(t *testing.T) {
	r, err := newRemote("http://Example.com:80/a/sse?x=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"/m?s=1": "http://Example.com:80/m?s=1", "m": "http://Example.com:80/a/m", "?s=2": "http://Example.com:80/a/sse?s=2",
		" http://example.com/m#f ": "http://example.com/m",
	} {
		if got, err := r.endpoint(ref); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v; want %s", ref, got, err, want)
		}
	}
}
