// Package awstest has what tests need of AWS: a verifier of signatures that shares no code
// with the one that makes them, and an STS that issues credentials for web identities.
package awstest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Secret is what AWS keeps of temporary credentials.
type Secret struct {
	Key   string
	Token string // "" for credentials that are not temporary
}

// Scope is what a signature is limited to.
type Scope struct{ Region, Service string }

// maxSkew is how old or new a signature may be (AWS IAM User Guide, Signature Version 4).
const maxSkew = 15 * time.Minute

// authorization are the parts of the Authorization header.
type authorization struct {
	keyID, date, region, service string
	signed                       []string
	signature                    string
}

// parseAuthorization reads the header (AWS IAM User Guide, "Add the signature to the
// request").
func parseAuthorization(header string) (a authorization, err error) {
	rest, found := strings.CutPrefix(header, "AWS4-HMAC-SHA256 ")
	if !found {
		return a, errors.New("the request is not signed by AWS4-HMAC-SHA256")
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || scope[4] != "aws4_request" {
		return a, fmt.Errorf("the scope %q is none", fields["Credential"])
	}
	a.keyID, a.date, a.region, a.service = scope[0], scope[1], scope[2], scope[3]
	a.signed, a.signature = strings.Split(fields["SignedHeaders"], ";"), fields["Signature"]
	return a, nil
}

// Verify computes the signature of a received request anew, as the AWS IAM User Guide
// describes it ("Create a signed AWS API request"). secret returns what is known of a key id.
func Verify(r *http.Request, body []byte, now time.Time, want Scope, secret func(keyID string) (Secret, bool)) error {
	a, err := parseAuthorization(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	known, found := secret(a.keyID)
	if !found {
		return fmt.Errorf("the key %q is unknown", a.keyID)
	}
	if a.region != want.Region || a.service != want.Service {
		return fmt.Errorf("the signature is for %s in %s", a.service, a.region)
	}
	date := r.Header.Get("X-Amz-Date")
	at, err := time.Parse("20060102T150405Z", date)
	if err != nil || !strings.HasPrefix(date, a.date+"T") || now.Sub(at).Abs() > maxSkew {
		return fmt.Errorf("the date %q is not that of the signature, or not now", date)
	}
	if got := r.Header.Get("X-Amz-Security-Token"); got != known.Token {
		return errors.New("the session token is not that of the key")
	}
	if err := checkSigned(r, a.signed); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if declared := r.Header.Get("X-Amz-Content-Sha256"); declared != "" && declared != hex.EncodeToString(sum[:]) {
		return errors.New("the body is not the signed one")
	}
	scope := strings.Join([]string{a.date, a.region, a.service, "aws4_request"}, "/")
	canonical := sha256.Sum256([]byte(canonicalRequest(r, a.signed, hex.EncodeToString(sum[:]))))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hex.EncodeToString(canonical[:])}, "\n")
	key := []byte("AWS4" + known.Key)
	for _, part := range []string{a.date, a.region, a.service, "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		_, _ = io.WriteString(mac, part)
		key = mac.Sum(nil)
	}
	if hex.EncodeToString(key) != a.signature {
		return errors.New("the signature is not that of the request")
	}
	return nil
}

// checkSigned: host, content-type if there is one, and all x-amz headers have to be signed.
func checkSigned(r *http.Request, signed []string) error {
	if !slices.IsSorted(signed) || !slices.Contains(signed, "host") {
		return fmt.Errorf("the signed headers %v are not sorted, or without host", signed)
	}
	for name := range r.Header {
		name = strings.ToLower(name)
		if (name == "content-type" || strings.HasPrefix(name, "x-amz-")) && !slices.Contains(signed, name) {
			return fmt.Errorf("the header %s is not signed", name)
		}
	}
	return nil
}

func canonicalRequest(r *http.Request, signed []string, sum string) string {
	var b strings.Builder
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	// Services other than S3 encode the path of the URL once more.
	fmt.Fprintf(&b, "%s\n%s\n%s\n", r.Method, encode(path, true), canonicalQuery(r.URL.RawQuery))
	for _, name := range signed {
		values := r.Header.Values(name)
		switch name {
		case "host":
			values = []string{r.Host}
		case "content-length":
			values = []string{fmt.Sprint(r.ContentLength)}
		}
		for i, v := range values {
			values[i] = strings.Join(strings.FieldsFunc(v, func(r rune) bool { return r == ' ' }), " ")
		}
		fmt.Fprintf(&b, "%s:%s\n", name, strings.Join(values, ","))
	}
	fmt.Fprintf(&b, "\n%s\n%s", strings.Join(signed, ";"), sum)
	return b.String()
}

// canonicalQuery encodes and sorts the parameters.
func canonicalQuery(query string) string {
	var all []string
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, _ = url.QueryUnescape(name)
		value, _ = url.QueryUnescape(value)
		// A tab sorts before everything that encode returns, so names are compared first.
		all = append(all, encode(name, false)+"\t"+encode(value, false))
	}
	slices.Sort(all)
	return strings.ReplaceAll(strings.Join(all, "&"), "\t", "=")
}

// encode is UriEncode of the guide: unreserved characters of RFC 3986 section 2.3 stay.
func encode(text string, path bool) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		unreserved := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
		if unreserved || path && c == '/' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
