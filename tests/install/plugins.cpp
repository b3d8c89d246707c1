// Two shared libraries that each contain smelt, in one program. AddressSanitizer sees what they would destroy twice.
extern "C" bool first();
extern "C" bool second();

int main() { return first() && second() ? 0 : 1; }
