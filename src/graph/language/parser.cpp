#include "graph/language/parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "graph/language/lexer.hpp"

namespace smelt::graph::language {
namespace {

/// Thrown to abandon a statement after an error has been reported.
struct Abandoned {};

constexpr std::array primitive_words = {"int", "long", "float", "double", "bool", "boolean", "string"};
constexpr std::array item_words = {"node", "edge"};
constexpr std::array property_words = {"node_property", "node_prop", "n_p", "edge_property", "edge_prop", "e_p"};
constexpr std::array collection_words = {"node_set", "n_s",           "edge_set",      "e_s",     "node_order",
                                         "n_o",      "edge_order",    "e_o",           "n_q",     "node_seq",
                                         "e_q",      "node_sequence", "edge_sequence", "edge_seq"};

template <std::size_t N>
bool is_one_of(const Token& token, const std::array<const char*, N>& words) {
  return token.kind == TokenKind::name &&
         std::any_of(words.begin(), words.end(), [&](const char* word) { return is_word(token.text, word); });
}

bool is_name(const Token& token, std::string_view word) {
  return token.kind == TokenKind::name && is_word(token.text, word);
}

/// The words that begin statements, which cannot be used as names.
bool is_reserved(std::string_view text) {
  for (const char* word : {"procedure", "proc", "if", "else", "while", "do", "for", "foreach", "return", "inbfs",
                           "inrbfs", "indfs", "inreverse", "inpost", "true", "false", "nil", "inf"}) {
    if (is_word(text, word)) return true;
  }
  return false;
}

struct ReductionWord {
  std::string_view word;
  Reduction reduction;
};
constexpr std::array reduction_words = {
    ReductionWord{"sum", Reduction::sum},          ReductionWord{"product", Reduction::product},
    ReductionWord{"min", Reduction::minimum},      ReductionWord{"max", Reduction::maximum},
    ReductionWord{"count", Reduction::count},      ReductionWord{"any", Reduction::logical_or},
    ReductionWord{"exist", Reduction::logical_or}, ReductionWord{"all", Reduction::logical_and},
    ReductionWord{"avg", Reduction::average}};

struct BinaryMark {
  std::string_view mark;
  Operator op;
};
constexpr std::array binary_marks = {BinaryMark{"||", Operator::logical_or}, BinaryMark{"&&", Operator::logical_and},
                                     BinaryMark{"==", Operator::equal},      BinaryMark{"!=", Operator::not_equal},
                                     BinaryMark{"<", Operator::less},        BinaryMark{"<=", Operator::less_equal},
                                     BinaryMark{">", Operator::greater},     BinaryMark{">=", Operator::greater_equal},
                                     BinaryMark{"+", Operator::add},         BinaryMark{"-", Operator::subtract},
                                     BinaryMark{"*", Operator::multiply},    BinaryMark{"/", Operator::divide},
                                     BinaryMark{"%", Operator::modulo}};

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the file";
  return fmt::format("'{}'", smelt::shown(token.text, 30));
}

class Parser {
 public:
  Parser(Program& program, Diagnostics& diagnostics)
      : program_(program), source_(program.source), diagnostics_(diagnostics) {
    token_ = next_token(source_, 0);
  }

  void run() {
    while (!at_end() && !diagnostics_.enough()) {
      try {
        program_.procedures.push_back(procedure());
      } catch (const Abandoned&) {
        skip_to_procedure();
      }
    }
  }

 private:
  // --- tokens

  bool at_end() const { return token_.kind == TokenKind::end; }
  bool at(std::string_view mark) const { return token_.is(mark); }
  bool at_word(std::string_view word) const { return is_name(token_, word); }
  Token after(const Token& token) const { return next_token(source_, token.span.end); }

  Token take() {
    if (token_.kind == TokenKind::wrong) fail(token_.span, fmt::format("{}: {}", shown(token_), token_.reason));
    last_ = token_;
    token_ = after(token_);
    return last_;
  }
  bool take_if(std::string_view mark) {
    if (!at(mark)) return false;
    take();
    return true;
  }
  bool take_word_if(std::string_view word) {
    if (!at_word(word)) return false;
    take();
    return true;
  }

  [[noreturn]] void fail(Span span, std::string message) {
    diagnostics_.error(span, std::move(message));
    throw Abandoned{};
  }
  [[noreturn]] void expected(const char* what) {
    if (token_.kind == TokenKind::wrong) fail(token_.span, fmt::format("{}: {}", shown(token_), token_.reason));
    fail(token_.span, fmt::format("expected {}, not {}", what, shown(token_)));
  }
  Token expect(std::string_view mark, const char* where) {
    if (at(mark)) return take();
    expected(fmt::format("'{}' {}", mark, where).c_str());
  }

  /// Reports a missing ';' after the previous token, and continues as if it existed.
  void expect_semicolon(const char* where) {
    if (take_if(";")) return;
    if (token_.kind == TokenKind::wrong) take();
    const Span behind = {last_.span.end > 0 ? last_.span.end - 1 : 0, last_.span.end};
    diagnostics_.error(behind, fmt::format("expected ';' {}, before {}", where, shown(token_)));
    if (!at("}") && !starts_line(token_)) throw Abandoned{};
  }
  bool starts_line(const Token& token) const {
    return source_.place(token.span.begin).line > source_.place(last_.span.begin).line;
  }

  Reference name(const char* what) {
    if (token_.kind != TokenKind::name) expected(what);
    if (is_reserved(token_.text)) {
      fail(token_.span, fmt::format("expected {}; '{}' is a word of the language", what, token_.text));
    }
    const Token token = take();
    return {std::string(token.text), token.span, nullptr};
  }

  /// Bounds the recursion, so that no text overflows the stack.
  class NestingLevel {
   public:
    explicit NestingLevel(Parser& parser) : parser_(parser) {
      constexpr int deepest = 200;
      if (parser_.depth_ == deepest) parser_.fail(parser_.token_.span, "this is nested too deeply");
      ++parser_.depth_;
    }
    ~NestingLevel() { --parser_.depth_; }

   private:
    Parser& parser_;
  };

  // --- after an error

  void skip_to_procedure() {
    while (!at_end()) {
      if (at_word("procedure") || at_word("proc")) return;
      if (at_word("local") && after(token_).kind == TokenKind::name) return;
      token_ = after(token_);
    }
  }

  /// Skips to the token after the next ';' of this block, or to the block's end.
  void skip_sentence() {
    int depth = 0;
    while (!at_end()) {
      if (at_word("procedure") || at_word("proc")) return;
      if (at("}") && depth-- == 0) return;
      if (at("{")) ++depth;
      const bool ends = depth == 0 && (at(";") || at("}"));
      last_ = token_;
      token_ = after(token_);
      if (ends) return;
    }
  }

  // --- procedures

  std::unique_ptr<Procedure> procedure() {
    auto procedure = std::make_unique<Procedure>();
    if (at_word("local")) {
      procedure->local = true;
      take();
      if (at_word("procedure") || at_word("proc")) take();
    } else if (at_word("procedure") || at_word("proc")) {
      take();
    } else {
      expected("'Procedure', 'Proc' or 'Local'");
    }
    const Reference procedure_name = name("the procedure's name");
    procedure->name = procedure_name.name;
    procedure->span = procedure_name.span;
    expect("(", "and the arguments");
    if (!at(")") && !at(";")) parameters(*procedure, procedure->inputs);
    if (take_if(";") && !at(")")) parameters(*procedure, procedure->outputs);
    expect(")", "at the end of the arguments");
    if (take_if(":")) procedure->return_type_expression = type();
    if (!at("{")) expected("'{' and the procedure's sentences");
    procedure->body = block();
    return procedure;
  }

  /// a, b: T, c: U
  void parameters(Procedure& procedure, std::vector<Procedure::Parameter>& parameters) {
    do {
      const auto first = parameters.size();
      do {
        parameters.push_back({name("an argument's name"), nullptr, nullptr});
      } while (take_if(","));
      expect(":", "and the argument's type");
      procedure.types.push_back(type());
      for (auto i = first; i < parameters.size(); ++i) parameters[i].type_expression = procedure.types.back().get();
    } while (take_if(","));
  }

  TypeExpressionPtr type() {
    const NestingLevel deeper(*this);
    auto type = std::make_unique<TypeExpression>();
    if (token_.kind != TokenKind::name && token_.kind != TokenKind::foreign_name) expected("a type");
    if (token_.kind == TokenKind::foreign_name) return foreign_type();
    const Token start = take();
    type->name = std::string(start.text);
    if (take_if("<")) {
      do {
        type->arguments.push_back(this->type());
      } while (take_if(","));
      expect(">", "at the end of the types within < >");
    }
    // Of a declaration "Node_Set (G) S" as well as of an argument.
    if (at("(") && after(token_).kind == TokenKind::name) {
      take();
      type->graph = name("the name of a graph");
      expect(")", "behind the graph's name");
    }
    type->span = from_to(start.span, last_.span);
    return type;
  }

  TypeExpressionPtr foreign_type() {
    auto type = std::make_unique<TypeExpression>();
    const Span span = {token_.span.begin, foreign_type_end(source_, token_.span.end)};
    type->name = std::string(source_.text(span));
    type->span = span;
    last_ = {TokenKind::foreign_name, span, source_.text(span), nullptr};
    token_ = next_token(source_, span.end);
    return type;
  }

  // --- sentences

  StatementPtr make(StatementKind kind) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->span = token_.span;
    return statement;
  }
  StatementPtr finished(StatementPtr statement) {
    statement->span = from_to(statement->span, last_.span);
    return statement;
  }

  StatementPtr block() {
    const NestingLevel deeper(*this);
    auto block = make(StatementKind::block);
    expect("{", "at the start of a block");
    while (!at("}")) {
      if (at_end() && diagnostics_.has_errors()) throw Abandoned{};
      if (at_end()) fail(block->span, "this '{' has no '}'");
      if (diagnostics_.enough()) throw Abandoned{};
      if (at_word("procedure") || at_word("proc")) {
        fail(token_.span, fmt::format("a procedure within another one; a '}}' is missing before"));
      }
      try {
        if (!take_if(";")) block->body.push_back(statement());
      } catch (const Abandoned&) {
        skip_sentence();
      }
    }
    take();
    return finished(std::move(block));
  }

  /// What follows a loop's or condition's head. Alone it may be a ';'.
  StatementPtr body() {
    if (at(";")) {
      auto nothing = make(StatementKind::block);
      take();
      return nothing;
    }
    return statement();
  }

  StatementPtr statement() {
    const NestingLevel deeper(*this);
    if (at("{")) return block();
    if (at("[")) return foreign_statement();
    if (at("<")) return finished(arg_assign_by_lists());
    if (token_.kind == TokenKind::name) {
      if (at_word("if")) return if_else();
      if (at_word("while")) return while_loop();
      if (at_word("do")) return do_while();
      if (at_word("for") || at_word("foreach")) return loop();
      if (at_word("inbfs") || at_word("inrbfs") || at_word("indfs")) return traversal();
      if (at_word("return")) return return_value();
      if (at_word("print") && begins_value(after(token_))) return print();
      if (at_word("error") && begins_value(after(token_))) return error();
      for (const char* word : {"else", "inreverse", "inpost"}) {
        if (at_word(word)) fail(token_.span, fmt::format("'{}' belongs to nothing before it", token_.text));
      }
    }
    if (begins_declaration()) return declaration();
    return assignment_or_call();
  }

  bool begins_value(const Token& token) const {
    switch (token.kind) {
      case TokenKind::end:
      case TokenKind::wrong: return false;
      case TokenKind::mark:
        return token.is("(") || token.is("-") || token.is("+") || token.is("!") || token.is("|") || token.is("[");
      default: return true;
    }
  }

  bool begins_declaration() const {
    if (token_.kind == TokenKind::foreign_name)
      return next_token(source_, foreign_type_end(source_, token_.span.end)).kind == TokenKind::name;
    const Token second = after(token_);
    if (is_one_of(token_, primitive_words)) return second.kind == TokenKind::name && !is_min_max_assign(second);
    const bool generic = is_one_of(token_, property_words) || is_name(token_, "map") || is_name(token_, "collection");
    if (generic && second.is("<")) return true;
    if (!generic && !is_one_of(token_, item_words) && !is_one_of(token_, collection_words) &&
        !is_name(token_, "graph")) {
      return false;
    }
    if (second.kind == TokenKind::name) return !is_min_max_assign(second);
    if (!second.is("(")) return false;
    const Token third = after(second);
    return third.kind == TokenKind::name && after(third).is(")") && after(after(third)).kind == TokenKind::name;
  }

  bool is_min_max_assign(const Token& token) const {
    return (is_name(token, "min") || is_name(token, "max")) && after(token).is("=");
  }

  StatementPtr declaration() {
    auto declaration = make(StatementKind::declare);
    declaration->type_expression = type();
    do {
      declaration->names.push_back(name("the name of what is declared"));
      if (at("(") && !declaration->type_expression->graph) {  // Node_Set S(G)
        take();
        declaration->type_expression->graph = name("the name of a graph");
        expect(")", "behind the graph's name");
      }
      declaration->values.push_back(take_if("=") ? expression() : nullptr);
    } while (take_if(","));
    expect_semicolon("at the end of the declaration");
    return finished(std::move(declaration));
  }

  StatementPtr assignment_or_call() {
    auto statement = make(StatementKind::assign);
    auto target = postfix(primary());
    if (at(";") && (target->kind == ExpressionKind::call || target->kind == ExpressionKind::method ||
                    target->kind == ExpressionKind::function)) {
      statement->kind = StatementKind::call;
      statement->value = std::move(target);
      take();
      return finished(std::move(statement));
    }
    statement->target = std::move(target);
    if (at("<")) {
      statement->kind = StatementKind::arg_assign;
      statement->more_targets = angle_list();
      arg_reduction(*statement);
      statement->value = without_angles([this] { return expression(); });
      statement->more_values = angle_list();
      end_of_assignment(*statement);
      return finished(std::move(statement));
    }
    assignment_operator(*statement);
    end_of_assignment(*statement);
    return finished(std::move(statement));
  }

  void end_of_assignment(Statement& statement) {
    if (take_if("@")) statement.bound = name("the iterator of the loop at whose end it happens");
    expect_semicolon("at the end of the sentence");
  }

  void assignment_operator(Statement& statement) {
    const auto reduce = [&](Reduction reduction) {
      take();
      statement.assign_kind = AssignKind::reduce;
      statement.reduction = reduction;
      statement.value = expression();
    };
    if (take_if("=")) {
      statement.value = expression();
    } else if (take_if("<=")) {
      statement.assign_kind = AssignKind::defer;
      statement.value = expression();
    } else if (at("+=")) {
      reduce(Reduction::sum);
    } else if (at("-=")) {
      reduce(Reduction::sum);
      const Span span = statement.value->span;
      statement.value = unary(Operator::negate, span, std::move(statement.value));
    } else if (at("*=")) {
      reduce(Reduction::product);
    } else if (at("&&=") || at("&=")) {
      reduce(Reduction::logical_and);
    } else if (at("||=") || at("|=")) {
      reduce(Reduction::logical_or);
    } else if (at("++") || at("--")) {
      const Token token = take();
      statement.assign_kind = AssignKind::reduce;
      statement.value = integer(token.is("++") ? 1 : -1, token.span);
    } else if (is_min_max_assign(token_)) {
      const bool minimum = at_word("min");
      take();
      reduce(minimum ? Reduction::minimum : Reduction::maximum);
    } else {
      expected(statement.target->kind == ExpressionKind::call || statement.target->kind == ExpressionKind::method
                   ? "';' behind the call"
                   : "an assignment: '=', '<=', '+=', '*=', 'min=', 'max=', '&&=', '||=' or '++'");
    }
  }

  void arg_reduction(Statement& statement) {
    if (!is_min_max_assign(token_)) expected("'min=' or 'max='");
    statement.reduction = at_word("min") ? Reduction::minimum : Reduction::maximum;
    statement.assign_kind = AssignKind::reduce;
    take();
    take();
  }

  /// <x; i, a> max= <e; n, n.A>
  StatementPtr arg_assign_by_lists() {
    auto statement = make(StatementKind::arg_assign);
    auto targets = angle_list(&statement->target);
    statement->more_targets = std::move(targets);
    arg_reduction(*statement);
    if (!at("<")) expected("'<' and the values");
    statement->more_values = angle_list(&statement->value);
    end_of_assignment(*statement);
    return statement;
  }

  /// <a, b>; with `first` <f; a, b>.
  std::vector<ExpressionPtr> angle_list(ExpressionPtr* first = nullptr) {
    return without_angles([&] {
      std::vector<ExpressionPtr> list;
      expect("<", "and what is assigned along");
      if (first != nullptr) {
        *first = expression();
        if (!at(";") && !at(",")) expected("';' and what is assigned along");
        take();
      }
      do {
        list.push_back(expression());
      } while (take_if(","));
      expect(">", "at the end of the list");
      return list;
    });
  }

  /// In a list in angle brackets, '<' and '>' are not operators, except in parentheses.
  template <class F>
  std::invoke_result_t<F> without_angles(F&& f) {
    const bool before = std::exchange(angles_compare_, false);
    struct Restore {
      bool& flag;
      bool value;
      ~Restore() { flag = value; }
    } restore{angles_compare_, before};
    return f();
  }

  std::unique_ptr<Iteration> iteration(bool with_root, ExpressionPtr* root, bool* transposed) {
    auto iteration = std::make_unique<Iteration>();
    expect("(", "and the iterator");
    iteration->name = name("the iterator's name");
    expect(":", "and what it runs over");
    ExpressionPtr source = named(name("what the iterator runs over"));
    for (;;) {
      if (at("[")) {
        source = index(std::move(source));
        continue;
      }
      if (at("^")) {
        take();
        iteration->reverse = true;
      }
      expect(".", "and a range, such as Nodes");
      const Reference part = name("a range, such as Nodes, Nbrs or Items");
      if (iteration->reverse || (!at(".") && !at("^") && !at("["))) {
        iteration->range_name = part.name;
        iteration->range_span = part.span;
        break;
      }
      source = field(std::move(source), part);
    }
    iteration->source = std::move(source);
    if (take_if("(")) {
      if (!at(")")) iteration->argument = expression();
      expect(")", "behind the range's argument");
    }
    if (with_root) {
      if (!take_if(";") && !take_word_if("from")) expected("';' or 'From' and the root");
      *root = expression();
      if (std::exchange(iteration->reverse, false)) *transposed = true;
    }
    expect(")", "at the end of the loop's head");
    return iteration;
  }

  ExpressionPtr filter() {
    if (!take_if("(")) return nullptr;
    auto filter = with_angles([this] { return expression(); });
    expect(")", "at the end of the filter");
    return filter;
  }

  StatementPtr loop() {
    auto loop = make(StatementKind::loop);
    loop->parallel = at_word("foreach");
    take();
    loop->iteration = iteration(false, nullptr, nullptr);
    loop->iteration->filter = filter();
    loop->body.push_back(body());
    return finished(std::move(loop));
  }

  StatementPtr traversal() {
    const bool depth_first = at_word("indfs");
    auto statement = make(depth_first ? StatementKind::dfs : StatementKind::bfs);
    statement->parallel = !depth_first;
    statement->transposed = at_word("inrbfs");
    take();
    statement->iteration = iteration(true, &statement->root, &statement->transposed);
    while (at("(") || at("[")) {
      auto& part = at("(") ? statement->iteration->filter : statement->navigator;
      if (part) fail(token_.span, at("(") ? "a second filter" : "a second navigator");
      if (at("(")) {
        part = filter();
      } else {
        take();
        part = with_angles([this] { return expression(); });
        expect("]", "at the end of the navigator");
      }
    }
    statement->body.push_back(body());
    statement->body.push_back(nullptr);
    if (at_word(depth_first ? "inpost" : "inreverse")) {
      take();
      statement->reverse_filter = filter();
      statement->body.back() = body();
    }
    return finished(std::move(statement));
  }

  ExpressionPtr condition() {
    expect("(", "and the condition");
    auto condition = with_angles([this] { return expression(); });
    expect(")", "at the end of the condition");
    return condition;
  }

  StatementPtr if_else() {
    auto statement = make(StatementKind::if_else);
    take();
    statement->value = condition();
    statement->body.push_back(body());
    statement->body.push_back(take_word_if("else") ? body() : nullptr);
    return finished(std::move(statement));
  }

  StatementPtr while_loop() {
    auto statement = make(StatementKind::while_loop);
    take();
    statement->value = condition();
    statement->body.push_back(body());
    return finished(std::move(statement));
  }

  StatementPtr do_while() {
    auto statement = make(StatementKind::do_while);
    take();
    statement->body.push_back(this->statement());
    if (!take_word_if("while")) expected("'While' and the condition under which it is done again");
    statement->value = condition();
    expect_semicolon("behind the condition");
    return finished(std::move(statement));
  }

  StatementPtr return_value() {
    auto statement = make(StatementKind::return_value);
    take();
    if (!at(";")) statement->value = expression();
    expect_semicolon("behind what is returned");
    return finished(std::move(statement));
  }

  StatementPtr print() {
    auto statement = make(StatementKind::print);
    take();
    do {
      statement->values.push_back(expression());
    } while (take_if(","));
    expect_semicolon("behind what is printed");
    return finished(std::move(statement));
  }

  StatementPtr error() {
    auto statement = make(StatementKind::error);
    take();
    statement->value = expression();
    expect_semicolon("behind the error's text");
    return finished(std::move(statement));
  }

  StatementPtr foreign_statement() {
    auto statement = make(StatementKind::foreign);
    statement->value = foreign();
    if (take_if("::")) {
      expect("[", "and the names of what the text changes");
      do {
        statement->modified.push_back(name("the name of what the text changes"));
        while (take_if(".")) statement->modified.back() = name("a property's name");
      } while (take_if(","));
      expect("]", "behind the names");
    }
    expect_semicolon("behind the text");
    return finished(std::move(statement));
  }

  // --- expressions

  template <class F>
  std::invoke_result_t<F> with_angles(F&& f) {
    struct State {
      Parser& parser;
      bool angles, bars;
      ~State() {
        parser.angles_compare_ = angles;
        parser.bars_end_ = bars;
      }
    } state{*this, std::exchange(angles_compare_, true), std::exchange(bars_end_, false)};
    return f();
  }

  ExpressionPtr make(ExpressionKind kind, Span span) {
    auto expression = std::make_unique<Expression>();
    expression->kind = kind;
    expression->span = span;
    return expression;
  }
  ExpressionPtr integer(std::int64_t value, Span span) {
    auto literal = make(ExpressionKind::integer, span);
    literal->integer = value;
    return literal;
  }
  /// Bounds the height of expressions, which chains of operators build without recursion here. Other passes do recurse.
  ExpressionPtr complete(ExpressionPtr whole) {
    constexpr int highest = 1000;
    for_each_child(*whole, [&](const Expression& part) { whole->height = std::max(whole->height, part.height + 1); });
    if (whole->height > highest)
      fail(whole->span, fmt::format("this applies more than {} operations one after the other", highest));
    return whole;
  }
  ExpressionPtr unary(Operator op, Span span, ExpressionPtr operand) {
    auto expression = make(ExpressionKind::unary, from_to(span, operand->span));
    expression->op = op;
    expression->operands.push_back(std::move(operand));
    return complete(std::move(expression));
  }
  ExpressionPtr named(Reference reference) {
    auto expression = make(ExpressionKind::name, reference.span);
    expression->reference = std::move(reference);
    return expression;
  }
  ExpressionPtr field(ExpressionPtr of, Reference reference) {
    auto expression = make(ExpressionKind::field, from_to(of->span, reference.span));
    expression->reference = std::move(reference);
    expression->operands.push_back(std::move(of));
    return complete(std::move(expression));
  }

  ExpressionPtr expression() {
    const NestingLevel deeper(*this);
    auto condition = binary(1);
    if (!take_if("?")) return condition;
    auto whole = make(ExpressionKind::conditional, condition->span);
    whole->operands.push_back(std::move(condition));
    whole->operands.push_back(expression());
    expect(":", "and the value for the other case");
    whole->operands.push_back(expression());
    whole->span = from_to(whole->span, last_.span);
    return complete(std::move(whole));
  }

  const BinaryMark* binary_mark() const {
    if (token_.kind != TokenKind::mark) return nullptr;
    for (const auto& each : binary_marks) {
      if (token_.text != each.mark) continue;
      if (!angles_compare_ && (each.mark == "<" || each.mark == ">")) return nullptr;
      if (bars_end_ && each.mark == "||") return nullptr;
      return &each;
    }
    return nullptr;
  }

  ExpressionPtr binary(int precedence) {
    auto left = unary();
    for (;;) {
      const BinaryMark* mark = binary_mark();
      if (mark == nullptr || precedence_of(mark->op) < precedence) return left;
      take();
      auto whole = make(ExpressionKind::binary, left->span);
      whole->op = mark->op;
      whole->operands.push_back(std::move(left));
      whole->operands.push_back(binary(precedence_of(mark->op) + 1));
      whole->span = from_to(whole->span, last_.span);
      left = complete(std::move(whole));
    }
  }

  ExpressionPtr unary() {
    const NestingLevel deeper(*this);
    const Span span = token_.span;
    if (take_if("!")) return unary(Operator::logical_not, span, unary());
    if (at("-") || at("+")) {
      const bool negative = take().is("-");
      if (at_word("inf")) {
        auto infinity = make(ExpressionKind::infinity, from_to(span, take().span));
        infinity->negative = negative;
        return infinity;
      }
      return negative ? unary(Operator::negate, span, unary()) : unary();
    }
    if (at("(") && is_cast()) {
      take();
      auto cast = make(ExpressionKind::cast, span);
      cast->type_expression = type();
      expect(")", "behind the type");
      cast->operands.push_back(unary());
      cast->span = from_to(span, last_.span);
      return complete(std::move(cast));
    }
    return postfix(primary());
  }

  bool is_cast() const {
    const Token word = after(token_);
    return is_one_of(word, primitive_words) && after(word).is(")");
  }

  ExpressionPtr primary() {
    const Span span = token_.span;
    if (at("(")) {
      take();
      auto inner = with_angles([this] { return expression(); });
      expect(")", "that closes a '(' before");
      inner->span = from_to(span, last_.span);
      return inner;
    }
    if (at("|") || at("||")) return absolute();
    if (at("[")) return foreign();
    switch (token_.kind) {
      case TokenKind::integer: return integer_literal();
      case TokenKind::real: return real_literal();
      case TokenKind::string: {
        auto literal = make(ExpressionKind::string, span);
        literal->text = string_value(take().text);
        return literal;
      }
      case TokenKind::name: return word();
      default: expected("an expression");
    }
  }

  ExpressionPtr integer_literal() {
    const Token token = take();
    auto literal = make(ExpressionKind::integer, token.span);
    const auto [end, problem] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), literal->integer);
    if (problem != std::errc())
      diagnostics_.error(token.span, fmt::format("{} is too large: a Long has 64 bits", shown(token)));
    return literal;
  }

  ExpressionPtr real_literal() {
    const Token token = take();
    auto literal = make(ExpressionKind::real, token.span);
    const auto [end, problem] =
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), literal->number);
    if (problem != std::errc()) diagnostics_.error(token.span, fmt::format("{} is no Double", shown(token)));
    return literal;
  }

  /// |x|. A '||' is two of them here.
  ExpressionPtr absolute() {
    const Span span = take_bar();
    const bool angles = std::exchange(angles_compare_, true), bars = std::exchange(bars_end_, true);
    struct Restore {
      Parser& parser;
      bool angles, bars;
      ~Restore() {
        parser.angles_compare_ = angles;
        parser.bars_end_ = bars;
      }
    } restore{*this, angles, bars};
    auto inner = expression();
    if (!at("|") && !at("||")) expected("'|' at the end of the absolute value");
    const Span end = take_bar();
    auto whole = unary(Operator::absolute, span, std::move(inner));
    whole->span = from_to(span, end);
    return whole;
  }

  Span take_bar() {
    const Span span = {token_.span.begin, token_.span.begin + 1};
    last_ = token_;
    last_.span = span;
    token_ = next_token(source_, span.end);
    return span;
  }

  ExpressionPtr word() {
    const auto literal = [&](ExpressionKind kind, std::int64_t value) {
      auto expression = make(kind, take().span);
      expression->integer = value;
      return expression;
    };
    if (at_word("true")) return literal(ExpressionKind::boolean, 1);
    if (at_word("false")) return literal(ExpressionKind::boolean, 0);
    if (at_word("nil")) return literal(ExpressionKind::nil, 0);
    if (at_word("inf")) return literal(ExpressionKind::infinity, 0);
    if (const auto reduction = reduction_here()) return this->reduction(*reduction);
    Reference reference = name("an expression");
    if (!at("(")) return named(std::move(reference));
    auto call = make(ExpressionKind::call, reference.span);
    call->reference = std::move(reference);
    return with_arguments(std::move(call));
  }

  std::optional<Reduction> reduction_here() const {
    const Token parenthesis = after(token_);
    if (!parenthesis.is("(")) return std::nullopt;
    const Token iterator = after(parenthesis);
    if (iterator.kind != TokenKind::name || !after(iterator).is(":")) return std::nullopt;
    for (const auto& each : reduction_words) {
      if (is_name(token_, each.word)) return each.reduction;
    }
    return std::nullopt;
  }

  ExpressionPtr reduction(Reduction reduction) {
    auto whole = make(ExpressionKind::reduction, take().span);
    whole->reduction = reduction;
    whole->iteration = iteration(false, nullptr, nullptr);
    whole->iteration->filter = filter();
    const bool of_conditions = reduction == Reduction::logical_and || reduction == Reduction::logical_or;
    if (take_if("{")) {
      if (reduction == Reduction::count) {
        diagnostics_.error(last_.span, "Count has no body; its condition stands within ( )");
      }
      whole->operands.push_back(with_angles([this] { return expression(); }));
      take_if(";");
      expect("}", "at the end of the reduction's body");
    } else if (of_conditions && whole->iteration->filter) {
      whole->operands.push_back(std::move(whole->iteration->filter));
    } else if (reduction != Reduction::count) {
      expected("'{' and the reduction's body");
    }
    whole->span = from_to(whole->span, last_.span);
    return complete(std::move(whole));
  }

  /// ( a, b; c, # )
  ExpressionPtr with_arguments(ExpressionPtr call) {
    expect("(", "and the arguments");
    with_angles([&] {
      while (!at(")") && !at(";")) {
        call->operands.push_back(expression());
        if (!take_if(",")) break;
      }
      if (take_if(";")) {
        while (!at(")")) {
          call->outputs.push_back(take_if("#") ? nullptr : expression());
          if (!take_if(",")) break;
        }
      }
    });
    expect(")", "at the end of the arguments");
    call->span = from_to(call->span, last_.span);
    return complete(std::move(call));
  }

  ExpressionPtr index(ExpressionPtr of) {
    auto whole = make(ExpressionKind::index, of->span);
    expect("[", "and the key");
    whole->operands.push_back(std::move(of));
    whole->operands.push_back(with_angles([this] { return expression(); }));
    expect("]", "behind the key");
    whole->span = from_to(whole->span, last_.span);
    return complete(std::move(whole));
  }

  ExpressionPtr postfix(ExpressionPtr expression) {
    for (;;) {
      if (at("[") && may_have_key(*expression)) {
        expression = index(std::move(expression));
      } else if (at(".")) {
        take();
        Reference reference = name("a property or function");
        if (at("(")) {
          auto call = make(ExpressionKind::method, expression->span);
          call->reference = std::move(reference);
          call->operands.push_back(std::move(expression));
          expression = with_arguments(std::move(call));
        } else {
          expression = field(std::move(expression), std::move(reference));
        }
      } else {
        return expression;
      }
    }
  }
  static bool may_have_key(const Expression& expression) {
    return expression.kind == ExpressionKind::name || expression.kind == ExpressionKind::field ||
           expression.kind == ExpressionKind::index;
  }

  /// [ text with $names ]: the names and the literal text between them.
  ExpressionPtr foreign() {
    const Span text = foreign_text(source_, token_.span.end);
    if (text.end > source_.text().size()) fail(token_.span, "this '[' has no ']'");
    auto whole = make(ExpressionKind::foreign, {token_.span.begin, text.end + 1});
    auto literal_begin = text.begin;
    const auto add_literal = [&](std::uint32_t end) {
      if (end > literal_begin) whole->pieces.push_back({std::string(source_.text({literal_begin, end})), nullptr});
    };
    for (auto at = text.begin; at < text.end; ++at) {
      if (source_.text()[at] != '$') continue;
      const Token token = next_token(source_, at);
      if (token.kind != TokenKind::foreign_name || token.span.end > text.end) continue;
      add_literal(at);
      const Span name_span = {token.span.begin + 1, token.span.end};
      auto expression = named({std::string(source_.text(name_span)), name_span, nullptr});
      auto end = token.span.end;
      // $n.A: a property, unless something like $x.size() follows.
      const Token dot = next_token(source_, end);
      const Token member = dot.span.begin == end && dot.is(".") ? next_token(source_, dot.span.end) : Token{};
      if (member.kind == TokenKind::name && member.span.begin == dot.span.end && member.span.end <= text.end) {
        expression = field(std::move(expression), {std::string(member.text), member.span, nullptr});
        end = member.span.end;
      }
      whole->pieces.push_back({{}, std::move(expression)});
      literal_begin = end;
      at = end - 1;
    }
    add_literal(text.end);
    last_ = {TokenKind::mark, {text.end, text.end + 1}, "]", nullptr};
    token_ = next_token(source_, text.end + 1);
    return whole;
  }

  Program& program_;
  const Source& source_;
  Diagnostics& diagnostics_;
  Token token_;  ///< the next one
  Token last_;   ///< the one taken last
  int depth_ = 0;
  bool angles_compare_ = true;  ///< '<' and '>' are operators
  bool bars_end_ = false;       ///< '||' ends an absolute value twice
};

}  // namespace

void parse(Program& program, Diagnostics& diagnostics) { Parser(program, diagnostics).run(); }

}  // namespace smelt::graph::language
