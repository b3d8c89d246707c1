#include "graph/language/printer.hpp"

#include <fmt/format.h>

namespace smelt::graph::language {
namespace {

/// With a point or an exponent. (What "#" adds depends on the version of fmt.)
std::string real_number(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

int precedence(const Expression& expression) {
  if (expression.kind == ExpressionKind::conditional) return 0;
  if (expression.kind == ExpressionKind::unary && expression.op != Operator::absolute) return 7;
  if (expression.kind == ExpressionKind::cast || expression.kind == ExpressionKind::convert) return 7;
  return expression.kind == ExpressionKind::binary ? precedence_of(expression.op) : 8;
}

std::string within(const Expression& expression, int least) {
  const auto text = to_text(expression);
  return precedence(expression) < least ? "(" + text + ")" : text;
}

template <class List>
std::string joined(const List& list) {
  std::string text;
  for (const auto& each : list) text += (text.empty() ? "" : ", ") + (each ? to_text(*each) : "#");
  return text;
}

std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + "\"";
}

const char* word_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum: return "Sum";
    case Reduction::product: return "Product";
    case Reduction::minimum: return "Min";
    case Reduction::maximum: return "Max";
    case Reduction::logical_and: return "All";
    case Reduction::logical_or: return "Any";
    case Reduction::count: return "Count";
    case Reduction::average: return "Avg";
  }
  return "?";
}

std::string head(const Iteration& iteration, const Expression* root = nullptr, bool transposed = false) {
  std::string text = fmt::format("({}: {}{}.{}", iteration.name.name, to_text(*iteration.source),
                                 iteration.reverse || transposed ? "^" : "",
                                 iteration.range_name.empty() ? to_string(iteration.range) : iteration.range_name);
  if (iteration.argument) text += "(" + to_text(*iteration.argument) + ")";
  if (root != nullptr) text += " From " + to_text(*root);
  text += ")";
  if (iteration.filter) text += "(" + to_text(*iteration.filter) + ")";
  return text;
}

std::string call(const Expression& expression, std::size_t first) {
  std::string text = expression.reference.name + "(";
  for (auto i = first; i < expression.operands.size(); ++i)
    text += (i > first ? ", " : "") + to_text(*expression.operands[i]);
  if (!expression.outputs.empty()) text += "; " + joined(expression.outputs);
  return text + ")";
}

std::string foreign(const Expression& expression) {
  std::string text = "[";
  for (const auto& piece : expression.pieces) text += piece.expression ? "$" + to_text(*piece.expression) : piece.text;
  return text + "]";
}

std::string assignment(const Statement& statement, const std::string& target) {
  const char* op = statement.assign_kind == AssignKind::set     ? "="
                   : statement.assign_kind == AssignKind::defer ? "<="
                                                                : to_string(statement.reduction);
  std::string text = fmt::format("{} {} {}", target, op, to_text(*statement.value));
  if (statement.bound) text += " @ " + statement.bound->name;
  return text + ";";
}

class ProgramPrinter {
 public:
  std::string print(const Program& program) {
    for (const auto& procedure : program.procedures) print(*procedure);
    return std::move(text_);
  }

 private:
  static std::string type(const TypeExpression& expression) {
    std::string text = expression.name;
    if (!expression.arguments.empty()) {
      std::string arguments;
      for (const auto& argument : expression.arguments) arguments += (arguments.empty() ? "" : ", ") + type(*argument);
      text += "<" + arguments + ">";
    }
    return expression.graph ? text + "(" + expression.graph->name + ")" : text;
  }

  static std::string parameters(const std::vector<Procedure::Parameter>& list) {
    std::string text;
    for (const auto& each : list) {
      text += (text.empty() ? "" : ", ") + each.name.name + ": " + type(*each.type_expression);
    }
    return text;
  }

  void print(const Procedure& procedure) {
    std::string line =
        fmt::format("{} {}({}", procedure.local ? "Local" : "Procedure", procedure.name, parameters(procedure.inputs));
    if (!procedure.outputs.empty()) line += "; " + parameters(procedure.outputs);
    line += ")";
    if (procedure.return_type_expression) line += " : " + type(*procedure.return_type_expression);
    add(line);
    print(*procedure.body);
  }

  void print(const Statement& statement) {
    if (statement.kind == StatementKind::block) {
      add("{");
      ++depth_;
      for (const auto& each : statement.body) print(*each);
      --depth_;
      return add("}");
    }
    add(to_text(statement));
    for (std::size_t i = 0; i < statement.body.size(); ++i) {
      if (!statement.body[i]) continue;
      if (i == 1 && statement.kind == StatementKind::if_else) add("Else");
      if (i == 1 && statement.kind != StatementKind::if_else) {
        add(std::string(statement.kind == StatementKind::dfs ? "InPost" : "InReverse") +
            (statement.reverse_filter ? "(" + to_text(*statement.reverse_filter) + ")" : ""));
      }
      ++depth_;
      print(*statement.body[i]);
      --depth_;
    }
    if (statement.kind == StatementKind::do_while) add("While (" + to_text(*statement.value) + ");");
  }

  void add(const std::string& line) { text_ += std::string(static_cast<std::size_t>(depth_) * 2, ' ') + line + "\n"; }

  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::integer: return fmt::format("{}", expression.integer);
    case ExpressionKind::real: return real_number(expression.number);
    case ExpressionKind::boolean: return expression.integer != 0 ? "True" : "False";
    case ExpressionKind::string: return quoted(expression.text);
    case ExpressionKind::nil: return "NIL";
    case ExpressionKind::infinity: return expression.negative ? "-INF" : "+INF";
    case ExpressionKind::name:
    case ExpressionKind::current: return expression.reference.name;
    case ExpressionKind::field: return within(*expression.operands[0], 8) + "." + expression.reference.name;
    case ExpressionKind::index:
      return within(*expression.operands[0], 8) + "[" + to_text(*expression.operands[1]) + "]";
    case ExpressionKind::unary:
      if (expression.op == Operator::absolute) return "|" + to_text(*expression.operands[0]) + "|";
      return to_string(expression.op) + within(*expression.operands[0], 7);
    case ExpressionKind::binary: {
      const int own = precedence(expression);
      return fmt::format("{} {} {}", within(*expression.operands[0], own), to_string(expression.op),
                         within(*expression.operands[1], own + 1));
    }
    case ExpressionKind::conditional:
      return fmt::format("{} ? {} : {}", within(*expression.operands[0], 1), within(*expression.operands[1], 0),
                         within(*expression.operands[2], 0));
    case ExpressionKind::cast:
      return fmt::format("({}) {}", expression.type_expression->name, within(*expression.operands[0], 7));
    case ExpressionKind::convert:
      return fmt::format("({}) {}", to_string(expression.type), within(*expression.operands[0], 7));
    case ExpressionKind::reduction: {
      const std::string text = word_of(expression.reduction) + head(*expression.iteration);
      return expression.operands.empty() ? text : text + "{" + to_text(*expression.operands[0]) + "}";
    }
    case ExpressionKind::method: return within(*expression.operands[0], 8) + "." + call(expression, 1);
    case ExpressionKind::function:
    case ExpressionKind::call: return call(expression, 0);
    case ExpressionKind::foreign: return foreign(expression);
  }
  return "?";
}

std::string to_text(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::block: return "{";
    case StatementKind::declare: {
      std::string text = statement.type_expression->name;
      if (!statement.symbols.empty() && statement.symbols.front()->type.kind != TypeKind::nothing) {
        text = to_string(statement.symbols.front()->type);
      }
      for (std::size_t i = 0; i < statement.names.size(); ++i) {
        text += (i == 0 ? " " : ", ") + statement.names[i].name;
        if (statement.values[i]) text += " = " + to_text(*statement.values[i]);
      }
      return text + ";";
    }
    case StatementKind::assign: return assignment(statement, to_text(*statement.target));
    case StatementKind::arg_assign: {
      std::string text =
          fmt::format("<{}; {}> {} <{}; {}>", to_text(*statement.target), joined(statement.more_targets),
                      to_string(statement.reduction), to_text(*statement.value), joined(statement.more_values));
      if (statement.bound) text += " @ " + statement.bound->name;
      return text + ";";
    }
    case StatementKind::group_assign:
      return assignment(statement, to_text(*statement.source) + "." + statement.property.name);
    case StatementKind::loop: return (statement.parallel ? "Foreach " : "For ") + head(*statement.iteration);
    case StatementKind::bfs:
    case StatementKind::dfs: {
      std::string text = statement.kind == StatementKind::bfs ? "InBFS " : "InDFS ";
      text += head(*statement.iteration, statement.root.get(), statement.transposed);
      return statement.navigator ? text + "[" + to_text(*statement.navigator) + "]" : text;
    }
    case StatementKind::if_else: return "If (" + to_text(*statement.value) + ")";
    case StatementKind::while_loop: return "While (" + to_text(*statement.value) + ")";
    case StatementKind::do_while: return "Do";
    case StatementKind::return_value: return statement.value ? "Return " + to_text(*statement.value) + ";" : "Return;";
    case StatementKind::call: return to_text(*statement.value) + ";";
    case StatementKind::print: return "Print " + joined(statement.values) + ";";
    case StatementKind::error: return "Error " + to_text(*statement.value) + ";";
    case StatementKind::foreign: return to_text(*statement.value) + ";";
  }
  return "?";
}

std::string to_text(const Program& program) { return ProgramPrinter().print(program); }

}  // namespace smelt::graph::language
