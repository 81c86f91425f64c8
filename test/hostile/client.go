package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/toolhaven/toolhaven/internal/mcp"
)

// Capabilities are of a client that can be asked everything.
const Capabilities = `{"sampling":{},"elicitation":{"form":{}},"roots":{"listChanged":true}}`

// Client is a client of streamable HTTP that does right. Its fields are set
// before it is used; it may be used by many at once.
type Client struct {
	URL  string
	HTTP *http.Client
	// Modern clients speak 2026-07-28, others 2025-11-25.
	Modern bool
	// Capabilities is what it says it can do; "" is nothing.
	Capabilities string
	// Answer answers a question of the server; nil refuses.
	Answer func(method string, params json.RawMessage) (json.RawMessage, error)
	// MaxRounds bounds the times that one request is answered with
	// input_required; 0 is 4.
	MaxRounds int

	Session string // of the session era, after Open
}

// Outcome is what became of one request.
type Outcome struct {
	Status    int
	Response  *mcp.Message   // nil when there was none
	Notes     []*mcp.Message // that came with it
	Questions []*mcp.Message // that were asked meanwhile
	Rounds    int            // POSTs it took
	Body      string         // what there was in place of a response
}

// Text is the text of a tool's result.
func (o *Outcome) Text() string {
	if o.Response == nil || o.Response.Error != nil {
		return ""
	}
	var r struct{ Content []struct{ Text string } }
	if json.Unmarshal(o.Response.Result, &r) != nil || len(r.Content) != 1 {
		return ""
	}
	return r.Content[0].Text
}

func (o *Outcome) String() string {
	if o.Response == nil {
		return fmt.Sprintf("HTTP %d, no response: %.200q", o.Status, o.Body)
	}
	return fmt.Sprintf("HTTP %d: %.300s", o.Status, o.Response.Encode())
}

// Open begins a session; a modern client needs none.
func (c *Client) Open(ctx context.Context) error {
	if c.Modern {
		return nil
	}
	o, err := c.Do(ctx, mcp.IntID(0), mcp.MethodInitialize, fmt.Sprintf(
		`{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"hostile","version":"1"}}`, c.capabilities()))
	if err != nil {
		return err
	}
	if o.Response == nil || o.Response.Error != nil {
		return fmt.Errorf("initialize: %s", o)
	}
	return c.Notify(ctx, mcp.NotificationInitialized, `{}`)
}

// Close ends the session.
func (c *Client) Close(ctx context.Context) error {
	if c.Session == "" {
		return nil
	}
	resp, err := c.Send(ctx, http.MethodDelete, nil, c.header("", ""))
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

func (c *Client) capabilities() string {
	if c.Capabilities == "" {
		return `{}`
	}
	return c.Capabilities
}

// Call calls a tool.
func (c *Client) Call(ctx context.Context, id mcp.ID, tool, arguments, meta string) (*Outcome, error) {
	if meta != "" {
		meta = `,"_meta":{` + meta + `}`
	}
	return c.Do(ctx, id, mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q,"arguments":%s%s}`, tool, arguments, meta))
}

// Do makes a request, answers what is asked meanwhile, and returns what came of
// it. The error is of the way there.
func (c *Client) Do(ctx context.Context, id mcp.ID, method, params string) (*Outcome, error) {
	p := json.RawMessage(params)
	if c.Modern {
		var err error
		if p, err = mcp.Insert(p, []byte(`"`+mcp.MetaVersion+`":"2026-07-28","`+mcp.MetaCapabilities+`":`+c.capabilities()), "_meta"); err != nil {
			return nil, err
		}
	}
	total := &Outcome{}
	for rounds := max(c.MaxRounds, 4); ; rounds-- {
		o, err := c.once(ctx, &mcp.Message{ID: id, Method: method, Params: p})
		if err != nil {
			return total, err
		}
		total.Rounds++
		total.Status, total.Response, total.Body = o.Status, o.Response, o.Body
		total.Notes, total.Questions = append(total.Notes, o.Notes...), append(total.Questions, o.Questions...)
		if !c.Modern || o.Response == nil || o.Response.Error != nil || rounds == 0 {
			break
		}
		next, asked, err := c.respond(p, o.Response.Result, total)
		if err != nil || !asked {
			return total, err
		}
		p = next
	}
	return total, nil //nolint:nilerr // the error that it knows of is an answer
}

// respond is the params of the next round, when result asks for one.
func (c *Client) respond(params, result json.RawMessage, o *Outcome) (next json.RawMessage, asked bool, err error) {
	var r struct {
		ResultType    string
		InputRequests map[string]struct {
			Method string
			Params json.RawMessage
		}
		RequestState *string
	}
	// What is no such result asks for nothing.
	if bad := json.Unmarshal(result, &r); bad != nil || r.ResultType != mcp.ResultInputRequired {
		return nil, false, nil //nolint:nilerr // a hostile result is for the test to judge
	}
	answers := map[string]json.RawMessage{}
	for key, q := range r.InputRequests {
		o.Questions = append(o.Questions, &mcp.Message{ID: mcp.StringID(key), Method: q.Method, Params: q.Params})
		if c.Answer == nil {
			continue
		}
		if answers[key], err = c.Answer(q.Method, q.Params); err != nil {
			return nil, false, err
		}
	}
	raw, err := json.Marshal(answers)
	if err != nil {
		return nil, false, err
	}
	if next, err = mcp.Set(params, raw, "inputResponses"); err != nil || r.RequestState == nil {
		return next, true, err
	}
	state, _ := json.Marshal(*r.RequestState)
	next, err = mcp.Set(next, state, "requestState")
	return next, true, err
}

// Notify sends a notification.
func (c *Client) Notify(ctx context.Context, method, params string) error {
	return c.post(ctx, &mcp.Message{Method: method, Params: json.RawMessage(params)})
}

// post sends a message that has no response.
func (c *Client) post(ctx context.Context, m *mcp.Message) error {
	resp, err := c.Send(ctx, http.MethodPost, m.Encode(), c.header(m.Method, ""))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusAccepted {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s: HTTP %d: %s", m.Method, resp.StatusCode, b)
	}
	return nil
}

func (c *Client) header(method, name string) http.Header {
	h := http.Header{"Content-Type": {mcp.TypeJSON}, "Accept": {"application/json, text/event-stream"}}
	switch {
	case c.Modern:
		h.Set(mcp.HeaderVersion, "2026-07-28")
		h.Set(mcp.HeaderMethod, method)
		if name != "" {
			h.Set(mcp.HeaderName, mcp.EncodeHeader(name))
		}
	case c.Session != "":
		h.Set(mcp.HeaderVersion, "2025-11-25")
		h.Set(mcp.HeaderSessionID, c.Session)
	}
	return h
}

// Send makes one HTTP request, whatever is in it.
func (c *Client) Send(ctx context.Context, verb string, body []byte, h http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = h
	return c.HTTP.Do(r)
}

// HeaderOf is the header of a request as this client sends it.
func (c *Client) HeaderOf(m *mcp.Message) http.Header {
	name, _, _ := mcp.LookupName(m.Method, m.Params)
	return c.header(m.Method, name)
}

// once is one POST with a request.
func (c *Client) once(ctx context.Context, m *mcp.Message) (*Outcome, error) {
	resp, err := c.Send(ctx, http.MethodPost, m.Encode(), c.HeaderOf(m))
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if m.Method == mcp.MethodInitialize && resp.StatusCode == http.StatusOK {
		c.Session = resp.Header.Get(mcp.HeaderSessionID)
	}
	return c.Read(ctx, resp)
}

// Read reads the response to one POST.
func (c *Client) Read(ctx context.Context, resp *http.Response) (*Outcome, error) {
	o := &Outcome{Status: resp.StatusCode}
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if t != mcp.TypeEventStream {
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return o, err
		}
		if o.Response, err = mcp.Parse(b); err != nil {
			o.Response, o.Body = nil, string(b)
		}
		return o, nil
	}
	for r := mcp.NewEventReader(resp.Body, mcp.MaxEvent+1<<20); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			o.Body = "the stream ended"
			return o, nil
		}
		if err != nil {
			return o, err
		}
		if len(e.Data) == 0 {
			continue
		}
		m, err := mcp.Parse(e.Data)
		if err != nil {
			return o, fmt.Errorf("the gateway sent %.200q: %w", e.Data, err)
		}
		switch m.Kind() {
		case mcp.Response:
			o.Response = m
			return o, nil
		case mcp.Notification:
			o.Notes = append(o.Notes, m)
		case mcp.Request:
			o.Questions = append(o.Questions, m)
			if err := c.answer(ctx, m); err != nil {
				return o, err
			}
		}
	}
}

func (c *Client) answer(ctx context.Context, q *mcp.Message) error {
	if c.Answer == nil {
		return c.post(ctx, mcp.NewError(q.ID, mcp.CodeMethodNotFound, "not me"))
	}
	result, err := c.Answer(q.Method, q.Params)
	if err != nil {
		return err
	}
	return c.post(ctx, mcp.NewResult(q.ID, result))
}
