package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// person answers what a server asks while it works on a request (MCP, Client
// Features): forms by the person at the terminal, if there is one. The same in
// both eras.
type person struct {
	app     *App
	ctx     context.Context // the command's; a session's handlers have another
	waiting *patience

	mu    sync.Mutex // one question at a time
	lines *answers
	notes map[string]bool // what has been noted

	followed int // lines of progress and log that were shown
}

// maxNotes bounds what a server makes a command note.
const maxNotes = 1000

// options declare what is answered: forms, roots (there are none), and sampling,
// which is declined: a tool that needs it is seen and says what it lacks.
func (p *person) options() *sdk.ClientOptions {
	return &sdk.ClientOptions{
		Capabilities:         &sdk.ClientCapabilities{RootsV2: &sdk.RootCapabilities{}}, //nolint:staticcheck // deprecated by the newest version only
		ElicitationHandler:   p.elicit,
		CreateMessageHandler: p.sample, //nolint:staticcheck // the same

		ProgressNotificationHandler: p.progress,
		LoggingMessageHandler:       p.log, //nolint:staticcheck // the same
	}
}

// sample declines (MCP 2025-11-25 client/sampling, Error Handling: -1).
//
//nolint:staticcheck // deprecated by the newest version only
func (p *person) sample(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
	p.note("the server asks for an answer of a language model; thv has none and declined")
	return nil, &jsonrpc.Error{Code: -1, Message: "thv has no language model, and declined the sampling request"}
}

// note tells the person what the server asked for, once: some ask again and again.
func (p *person) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	if p.notes[text] || len(p.notes) >= maxNotes {
		return
	}
	if p.notes == nil {
		p.notes = map[string]bool{}
	}
	p.notes[text] = true
	fmt.Fprintf(p.app.Err, "Note: %s\n", text)
}

// elicit asks for the fields of a form, or declines where nobody can be asked.
func (p *person) elicit(ctx context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	form, err := newForm(req.Params)
	in, ok := p.app.In.(*os.File)
	switch {
	case err != nil:
		p.note("the server asks for input that cannot be asked for (%v); thv declined", err)
		return &sdk.ElicitResult{Action: "decline"}, nil
	case !ok || !isTerminal(p.app.In) || !isTerminal(p.app.Err):
		p.note("the server asks for input, and there is no terminal to ask at; thv declined. It asked: %s", form)
		return &sdk.ElicitResult{Action: "decline"}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting.pause()
	defer p.waiting.resume()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if p.lines == nil {
		p.lines = newAnswers(in)
	}
	answer, err := p.fill(ctx, form)
	if err != nil && p.ctx.Err() != nil { // the person ended the command; the server is not to wait
		return &sdk.ElicitResult{Action: "cancel"}, nil
	}
	return answer, err
}

// fill shows the form and reads the answers.
func (p *person) fill(ctx context.Context, form *form) (*sdk.ElicitResult, error) {
	read := func(prompt string) (string, error) {
		fmt.Fprint(p.app.Err, prompt)
		line, err := p.lines.read(ctx, false)
		if err != nil {
			fmt.Fprintln(p.app.Err)
		}
		return line, err
	}
	fmt.Fprintf(p.app.Err, "The server asks: %s\n", form.message)
	for {
		line, err := read("Answer it? [y]es, [n]o, [c]ancel: ")
		switch choice := strings.ToLower(line); {
		case errors.Is(err, io.EOF):
			return &sdk.ElicitResult{Action: "cancel"}, nil
		case err != nil:
			return nil, err
		case choice == "n" || choice == "no":
			return &sdk.ElicitResult{Action: "decline"}, nil
		case choice == "c" || choice == "cancel":
			return &sdk.ElicitResult{Action: "cancel"}, nil
		case choice != "y" && choice != "yes":
			continue
		}
		break
	}
	content := map[string]any{}
	for _, f := range form.fields {
		for {
			line, err := read(f.prompt())
			if errors.Is(err, io.EOF) {
				return &sdk.ElicitResult{Action: "cancel"}, nil
			}
			if err != nil {
				return nil, err
			}
			value, err := f.parse(line)
			if err != nil {
				fmt.Fprintf(p.app.Err, "  %v\n", err)
				continue
			}
			if value != nil {
				content[f.name] = value
			}
			break
		}
	}
	return &sdk.ElicitResult{Action: "accept", Content: content}, nil
}
