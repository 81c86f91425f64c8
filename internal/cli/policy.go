package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolhaven/toolhaven/internal/auth"
	"github.com/toolhaven/toolhaven/internal/cli/base"
	"github.com/toolhaven/toolhaven/internal/cli/render"
	"github.com/toolhaven/toolhaven/internal/exchange"
	"github.com/toolhaven/toolhaven/internal/policy"
	"github.com/toolhaven/toolhaven/internal/runflag"
)

// newPolicy is the command for authorization files.
func newPolicy(app *base.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check authorization files, and explain a decision",
	}
	cmd.AddCommand(newPolicyCheck(app))
	return cmd
}

// policyCheck holds the flags of policy check.
type policyCheck struct {
	tool, prompt, resource string
	claims, tokenFile      string
	args                   string
	hints                  []string
}

func newPolicyCheck(app *base.App) *cobra.Command {
	var o policyCheck
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check an authorization file, and explain one decision",
		Long: `Check reads the file of run --authz-config and reports everything that is wrong with it,
with the line and column in each policy. With --tool, --prompt or --resource it also
makes one decision, offline, and shows which policies decided and which could not be
evaluated.

The caller is given by --claims, a JSON object of claims, or by --token-file, a file with
a JWT. The token is not verified. Without either the caller is anonymous, as it is at a
gateway without --oidc-* options. Names are the server's own, without --tools-override.`,
		Example: `  thv policy check authz.yaml
  thv policy check authz.yaml --tool delete_file --args '{"path":"/tmp/x"}' --claims '{"sub":"ann","groups":["eng"]}'
  thv policy check authz.yaml --tool read_file --hint readOnlyHint=true --token-file token.jwt -o json | jq .allow`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(app, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.tool, "tool", "", "Decide on a call of this tool")
	f.StringVar(&o.prompt, "prompt", "", "Decide on this prompt")
	f.StringVar(&o.resource, "resource", "", "Decide on reading the resource with this URI")
	f.StringVar(&o.args, "args", "", "Arguments of the call or the prompt, a JSON object")
	f.StringArrayVar(&o.hints, "hint", nil, "Annotation of the tool, such as readOnlyHint=true; repeatable")
	f.StringVar(&o.claims, "claims", "", "Claims of the caller, a JSON object; sub is the subject")
	f.StringVar(&o.tokenFile, "token-file", "", "File with a JWT of the caller, whose claims are used without verification")
	cmd.MarkFlagsMutuallyExclusive("tool", "prompt", "resource")
	cmd.MarkFlagsMutuallyExclusive("claims", "token-file")
	base.OutputFlag(cmd, app)
	return cmd
}

func (o *policyCheck) run(app *base.App, file string) error {
	cfg, err := runflag.LoadPolicy(file)
	if err != nil {
		return base.AsUsage(err)
	}
	p, err := policy.New(*cfg, nil)
	if err != nil {
		return base.AsUsage(fmt.Errorf("%s: %w", file, err))
	}
	request, given, err := o.request()
	if err != nil {
		return base.AsUsage(err)
	}
	if !given {
		if app.JSON {
			return render.JSON(app.Out, map[string]any{"valid": true, "policies": p.Len()})
		}
		_, err := fmt.Fprintf(app.Out, "%s is valid: %s\n", file, policies(p.Len()))
		return err
	}
	caller, err := o.caller()
	if err != nil {
		return base.AsUsage(err)
	}
	decision, err := p.Decide(caller, request)
	if err != nil {
		return base.AsUsage(err)
	}
	if app.JSON {
		return render.JSON(app.Out, decision)
	}
	return printDecision(app, decision, request)
}

func policies(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}

// request returns the request to decide on; given is false when there is none.
func (o *policyCheck) request() (r policy.Request, given bool, err error) {
	switch {
	case o.tool != "":
		r = policy.Request{Action: policy.CallTool, Name: o.tool}
	case o.prompt != "":
		r = policy.Request{Action: policy.GetPrompt, Name: o.prompt}
	case o.resource != "":
		r = policy.Request{Action: policy.ReadResource, Name: o.resource}
	case o.args != "" || o.claims != "" || o.tokenFile != "" || len(o.hints) > 0:
		return r, false, errors.New("choose what to decide on: --tool, --prompt or --resource")
	default:
		return r, false, nil
	}
	if o.args != "" {
		var object map[string]any
		if err := json.Unmarshal([]byte(o.args), &object); err != nil || object == nil {
			return r, false, errors.New("--args is not a JSON object")
		}
		r.Arguments = json.RawMessage(o.args)
	}
	if len(o.hints) > 0 {
		if o.tool == "" {
			return r, false, errors.New("--hint is for --tool")
		}
		if r.Hints, err = policy.ParseHints(o.hints); err != nil {
			return r, false, fmt.Errorf("--hint: %w", err)
		}
	}
	return r, true, nil
}

// caller returns the caller of --claims or --token-file, nil for neither.
func (o *policyCheck) caller() (*exchange.Caller, error) {
	var claims map[string]any
	switch {
	case o.claims != "":
		dec := json.NewDecoder(strings.NewReader(o.claims))
		dec.UseNumber()
		if err := dec.Decode(&claims); err != nil || claims == nil || dec.More() {
			return nil, errors.New("--claims is not a JSON object")
		}
	case o.tokenFile != "":
		token, err := runflag.ReadFile(o.tokenFile, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		if claims, err = auth.UnverifiedClaims(strings.TrimSpace(string(token))); err != nil {
			return nil, fmt.Errorf("--token-file %s: %w", o.tokenFile, err)
		}
	default:
		return nil, nil
	}
	subject, _ := claims["sub"].(string)
	return &exchange.Caller{Subject: subject, Claims: claims}, nil
}

func printDecision(app *base.App, d policy.Decision, r policy.Request) error {
	verdict, effect := "deny", "forbidden by"
	if d.Allow {
		verdict, effect = "allow", "permitted by"
	}
	fmt.Fprintf(app.Out, "%s: %s %s\n", verdict, strings.ReplaceAll(r.Action, "_", " "), r.Name)
	for _, reason := range d.Policies {
		fmt.Fprintf(app.Out, "%s %s, line %d, column %d\n", effect, reason.Policy, reason.Line, reason.Column)
	}
	if len(d.Policies) == 0 {
		fmt.Fprintln(app.Out, "no policy permits it")
	}
	for _, reason := range d.Errors {
		fmt.Fprintf(app.Out, "does not apply: %s, line %d, column %d: %s\n", reason.Policy, reason.Line, reason.Column, reason.Error)
	}
	return nil
}
