package authcmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/credential/aws"
	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/runflag"
)

func newExplain(app *base.App) *cobra.Command {
	var claims string
	cmd := &cobra.Command{
		Use:   "explain FILE --claims CLAIMS",
		Short: "Show what the server would receive for a caller, and why",
		Long: `Explain reads the MCPExternalAuthConfig resources of a YAML or JSON file and shows what
the server would receive with the requests of a caller: which header, which token, or
which role of AWS. For awsSts it shows each role mapping in the order of evaluation, and
why it matched or did not.

The caller is given by --claims: a file with a JSON object of claims or with a JWT, or a
JSON object itself. Claims and tokens are not verified. It works offline: it sends no
request, and reads no secret.`,
		Example: `  thv auth explain aws.yaml --claims jo.json
  thv auth explain aws.yaml --claims token.jwt
  thv auth explain aws.yaml --claims '{"sub":"jo","groups":["admins"]}' -o json | jq -r '.resources[0].role'`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return explainAuth(app, args[0], claims) },
	}
	cmd.Flags().StringVar(&claims, "claims", "", "File with the claims of a caller, a JSON object or a JWT; or the JSON object")
	_ = cmd.MarkFlagRequired("claims")
	base.OutputFlag(cmd, app)
	return cmd
}

// maxClaims bounds a file of claims, in bytes.
const maxClaims = 1 << 20

// readClaims returns the claims of --claims, numbers as json.Number.
func readClaims(value string) (map[string]any, error) {
	content := []byte(value)
	object := func() bool { return bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) }
	if !object() {
		var err error
		if content, err = runflag.ReadFile(value, maxClaims); err != nil {
			return nil, fmt.Errorf("--claims: %w", err)
		}
	}
	if !object() {
		claims, err := auth.UnverifiedClaims(string(bytes.TrimSpace(content)))
		if err != nil {
			return nil, fmt.Errorf("--claims: the file is neither a JSON object nor a JWT: %w", err)
		}
		return claims, nil
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.UseNumber()
	var claims map[string]any
	if err := dec.Decode(&claims); err != nil || claims == nil {
		return nil, errors.New("--claims is not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("--claims has more than one JSON object")
	}
	return claims, nil
}

// explanation is what a server receives by one resource.
type explanation struct {
	Name string            `json:"name"`
	Type externalauth.Type `json:"type"`
	// Result is a sentence.
	Result string `json:"result"`
	// Header carries the credential; "" for none. Subject is whose token it is made of.
	Header  string `json:"header,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Sent is false when a request of the caller is refused.
	Sent bool `json:"sent"`
	// The others are of awsSts.
	Role     string              `json:"role,omitempty"`
	Because  string              `json:"because,omitempty"`
	Session  string              `json:"sessionName,omitempty"`
	Mappings []mappingEvaluation `json:"mappings,omitempty"`
}

// mappingEvaluation is the outcome of one role mapping.
type mappingEvaluation struct {
	Index     int    `json:"index"`
	Priority  *int32 `json:"priority"`
	Condition string `json:"condition"`
	Role      string `json:"roleArn"`
	Matched   bool   `json:"matched"`
	Used      bool   `json:"used"`
	Reason    string `json:"reason"`
}

func explainAuth(app *base.App, file, claimsFlag string) error {
	resources, err := readAuth(file)
	if err != nil {
		return err
	}
	claims, err := readClaims(claimsFlag)
	if err != nil {
		return base.AsUsage(err)
	}
	var all []explanation
	for _, r := range resources {
		x := explanation{Name: r.Metadata.Name, Type: r.Spec.Type, Sent: true}
		x.explain(&r.Spec)
		if r.Spec.AWSSTS != nil {
			if err := x.explainAWS(r.Spec.AWSSTS, claims); err != nil {
				return base.AsUsage(fmt.Errorf("%s: %w", file, err))
			}
		}
		all = append(all, x)
	}
	if app.JSON {
		return render.JSON(app.Out, struct {
			Verified  bool          `json:"claimsVerified"`
			Resources []explanation `json:"resources"`
		}{false, all})
	}
	for i := range all {
		if err := all[i].write(app.Out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(app.Out, "The claims were not verified.")
	return err
}

// subject is whose token is used.
func subject(provider string) string {
	if provider == "" {
		return "the caller's token"
	}
	return "the token of the upstream provider " + provider
}

// explain sets what does not depend on claims.
func (x *explanation) explain(s *externalauth.Spec) {
	const unconditional = "; this does not depend on claims"
	switch {
	case s.HeaderInjection != nil:
		x.Header = s.HeaderInjection.HeaderName
		x.Result = fmt.Sprintf("the header %s with the secret %s%s", x.Header, s.HeaderInjection.ValueSecretRef, unconditional)
	case s.BearerToken != nil:
		x.Header = "Authorization"
		x.Result = fmt.Sprintf("the secret %s as the bearer token%s", s.BearerToken.TokenSecretRef, unconditional)
	case s.TokenExchange != nil:
		e := s.TokenExchange
		x.Header, x.Subject = cmp.Or(e.ExternalTokenHeaderName, "Authorization"), subject(e.SubjectProviderName)
		x.Result = fmt.Sprintf("a token for %s in the header %s, for which %s exchanges %s; the token endpoint decides by the token, not by these claims",
			e.Audience, x.Header, e.TokenURL, x.Subject)
	case s.UpstreamInject != nil:
		x.Header, x.Subject = "Authorization", subject(s.UpstreamInject.ProviderName)
		x.Result = x.Subject + " as the bearer token; the caller has to be signed in there"
	case s.EmbeddedAuthServer != nil:
		x.Result = "nothing: the resource is about how clients are authenticated"
	case s.AWSSTS != nil:
		x.Header, x.Subject = "Authorization", subject(s.AWSSTS.SubjectProviderName)
	default:
		x.Result = "no credential"
	}
}

func (x *explanation) explainAWS(s *externalauth.AWSSTS, claims map[string]any) error {
	e, err := aws.Explain(s, claims)
	if err != nil {
		return err
	}
	for _, m := range e.Mappings {
		x.Mappings = append(x.Mappings, mappingEvaluation{
			Index: m.Index, Priority: m.Mapping.Priority, Condition: m.Condition, Role: m.Mapping.RoleARN,
			Matched: m.Matched, Used: m.Index == e.Used, Reason: m.Reason,
		})
	}
	x.Role, x.Session = e.Role, e.Session
	switch {
	case e.Role == "":
	case e.Used >= 0:
		x.Because = fmt.Sprintf("roleMappings[%d] is the first that matched", e.Used)
	default:
		x.Because = "no mapping matched, and this is fallbackRoleArn"
	}
	if e.Problem != "" {
		x.Sent, x.Result = false, "nothing: the request is refused, because "+e.Problem
		return nil
	}
	x.Result = fmt.Sprintf("the request, signed for %s in %s as %s, session %s (claim %s)", e.Service, e.Region, e.Role, e.Session, e.SessionClaim)
	return nil
}

func (x *explanation) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s (%s): the server receives %s.\n", x.Name, x.Type, x.Result); err != nil {
		return err
	}
	if x.Because != "" {
		if _, err := fmt.Fprintf(w, "The role is %s: %s.\n", x.Role, x.Because); err != nil {
			return err
		}
	}
	if len(x.Mappings) == 0 {
		return nil
	}
	var rows [][]string
	for _, m := range x.Mappings {
		priority, result := "-", "not matched"
		if m.Priority != nil {
			priority = strconv.Itoa(int(*m.Priority))
		}
		switch {
		case m.Used:
			result = "used"
		case m.Matched:
			result = "matched, too late"
		}
		rows = append(rows, []string{fmt.Sprintf("roleMappings[%d]", m.Index), priority, m.Condition, m.Role, result, m.Reason})
	}
	return render.Table(w, []string{"MAPPING", "PRIORITY", "CONDITION", "ROLE", "RESULT", "REASON"}, rows, nil, 3, 4)
}
