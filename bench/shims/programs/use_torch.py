import hashlib, os, time
import torch
torch.manual_seed(0)
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 256),
                            torch.nn.GELU(), torch.nn.Linear(256, 10))
images, labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_of = torch.nn.CrossEntropyLoss()
states = []
start = time.perf_counter()
for epoch in range(4):
    for i in range(0, 4096, 128):
        optimizer.zero_grad()
        loss = loss_of(model(images[i:i + 128]), labels[i:i + 128])
        loss.backward()
        optimizer.step()
    states.append(hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest())
print("seconds", time.perf_counter() - start)
print(*states, sep="\n")
