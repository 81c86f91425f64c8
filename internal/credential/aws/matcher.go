package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/toolhaven/toolhaven/internal/externalauth"
	"github.com/toolhaven/toolhaven/internal/plaintext"
)

// Bounds of an expression.
const (
	// maxCost bounds one evaluation, in units of CEL's cost: some milliseconds.
	maxCost = 100_000
	// maxDepth bounds the nesting of an expression, maxNested that of loops over claims.
	maxDepth  = 50
	maxNested = 2
	// maxReason bounds the text of a failed evaluation.
	maxReason = 200
)

// environment is CEL with its standard library and the variable claims.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("claims", cel.MapType(cel.StringType, cel.DynType)),
		cel.CustomTypeAdapter(adapter{}),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(externalauth.MaxMatcher),
		cel.ParserRecursionLimit(maxDepth),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(), cel.ValidateComprehensionNestingLimit(maxNested)),
	)
})

// compiling is held during a compilation: cel-go 0.33.2 builds a catalog for its error messages
// in the environment, and reads it without a lock.
var compiling sync.Mutex

// matcher is a compiled expression. It may be used concurrently.
type matcher struct{ program cel.Program }

// compileMatcher returns the matcher of an expression whose result is, or may be, a boolean.
func compileMatcher(expression string) (*matcher, error) {
	compiling.Lock()
	defer compiling.Unlock()
	env, err := environment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(expression)
	if errs := issues.Errors(); len(errs) > 0 {
		e := errs[0]
		return nil, fmt.Errorf("line %d, column %d: %s", e.Location.Line(), e.Location.Column()+1, plaintext.Excerpt(e.Message, maxReason))
	}
	// A claim has no declared type, so `claims.admin` is known to be a boolean only when it is
	// evaluated.
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("its result is %s, and has to be bool", t)
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, errors.New(plaintext.Excerpt(err.Error(), maxReason))
	}
	return &matcher{program}, nil
}

// evaluate returns the result for claims.
func (m *matcher) evaluate(claims map[string]any) (bool, error) {
	if claims == nil {
		claims = map[string]any{}
	}
	result, _, err := m.program.Eval(map[string]any{"claims": claims})
	if err != nil {
		return false, errors.New(plaintext.Excerpt(err.Error(), maxReason))
	}
	matched, isBool := result.(types.Bool)
	if !isBool {
		return false, fmt.Errorf("its result is %s, not bool", result.Type().TypeName())
	}
	return bool(matched), nil
}

// adapter converts claims, whose numbers are of the type json.Number, where an expression
// reads them.
type adapter struct{}

// NativeToValue implements [types.Adapter].
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	case json.Number:
		return number(v)
	}
	return types.DefaultTypeAdapter.NativeToValue(value)
}

// number is an int if the number is one, else a double.
func number(n json.Number) ref.Val {
	if i, err := n.Int64(); err == nil {
		return types.Int(i)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return types.NewErr("a number is out of range")
	}
	return types.Double(f)
}
