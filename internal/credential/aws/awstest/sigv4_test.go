package awstest

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"
)

// published are requests of the Signature Version 4 test suite that AWS publishes, and their
// signatures. The key is AKIDEXAMPLE, the scope 20150830/us-east-1/service.
var published = []struct{ name, request, signed, signature string }{
	{"get-vanilla", "GET / HTTP/1.1\n", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
	{"get-vanilla-query-order-key-case", "GET /?Param2=value2&Param1=value1 HTTP/1.1\n", "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
	{"post-vanilla", "POST / HTTP/1.1\n", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
	{
		"post-x-www-form-urlencoded", "POST / HTTP/1.1\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 13\n",
		"content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
	},
}

// read returns the request of a row, with its signature.
func read(t *testing.T, request, signed, signature string) *http.Request {
	t.Helper()
	text := request + "Host: example.amazonaws.com\nX-Amz-Date: 20150830T123600Z\nAuthorization: AWS4-HMAC-SHA256 " +
		"Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + signed + ", Signature=" + signature + "\n\n"
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n"))))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerify_Published(t *testing.T) {
	t.Parallel()
	for _, c := range published {
		body := ""
		if strings.Contains(c.request, "Content-Length: 13") {
			body = "Param1=value1"
		}
		verify := func(r *http.Request, body string) error {
			return Verify(r, []byte(body), time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC), Scope{"us-east-1", "service"}, func(id string) (Secret, bool) {
				return Secret{Key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, id == "AKIDEXAMPLE"
			})
		}
		if err := verify(read(t, c.request, c.signed, c.signature), body); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		// Each change is noticed.
		if verify(read(t, c.request, c.signed, c.signature), body+"x") == nil {
			t.Errorf("%s: another body", c.name)
		}
		if verify(read(t, strings.Replace(c.request, " /", " /x", 1), c.signed, c.signature), body) == nil {
			t.Errorf("%s: another path", c.name)
		}
		if verify(read(t, c.request, "x-amz-date", c.signature), body) == nil {
			t.Errorf("%s: the host is not signed", c.name)
		}
		if verify(read(t, c.request+"X-Amz-Target: x\n", c.signed, c.signature), body) == nil {
			t.Errorf("%s: a header that is not signed", c.name)
		}
	}
}
