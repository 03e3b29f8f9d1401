@cuda.jit("void(int64, int64, CPointer(float64), int64, int64, int64, int64, CPointer(float64), CPointer(float64), int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def kernel(n0, n1, x0, s3, c4, c5, c6, x1, x2, b9, c10, b11, b12, b13, b14, c15, s16, b17, c18, s19):
    # subtract: float64, 2-d
    n0 = int32(n0)
    n1 = int32(n1)
    s3 = int32(s3)
    c4 = int32(c4)
    c5 = int32(c5)
    c6 = int32(c6)
    b9 = int32(b9)
    c10 = int32(c10)
    b11 = int32(b11)
    b12 = int32(b12)
    b13 = int32(b13)
    b14 = int32(b14)
    c15 = int32(c15)
    s16 = int32(s16)
    b17 = int32(b17)
    c18 = int32(c18)
    s19 = int32(s19)
    v5 = float64(0.0)
    v7 = x1[0]
    v36 = float64(0.0)
    v47 = x1[0]
    tasks = uint32(n0 * n1)
    step = uint32(cuda.gridDim.x * cuda.blockDim.x)
    task = uint32(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x)
    while task < tasks:
        i1 = int32(task % max(uint32(n1), uint32(1)))
        rest1 = uint32(task // max(uint32(n1), uint32(1)))
        i0 = int32(rest1)
        if b12 <= i0 < b13:
            if i1 < b9:
                p0 = int32(i0 * s3 + i1)
                v0 = x0[p0 + c4]
                v1 = x0[p0 + c5]
                v2 = v0 + v1
                v3 = x0[p0 + c6]
                v4 = v2 + v3
                v6 = v4 + v5
                v8 = x0[p0]
                v9 = v7 * v8
                v10 = v6 - v9
                x2[p0] = v10
            elif i1 < b11:
                p1 = int32(i0 * s3 + i1)
                v11 = x0[p1 + c4]
                v12 = x0[p1 + c5]
                v13 = v11 + v12
                v14 = x0[p1 + c6]
                v15 = v13 + v14
                v16 = x0[p1 + c10]
                v17 = v15 + v16
                v18 = x0[p1]
                v19 = v7 * v18
                v20 = v17 - v19
                x2[p1] = v20
            else:
                p2 = int32(i0 * s3 + i1)
                v21 = x0[p2 + c4]
                v22 = x0[p2 + c5]
                v23 = v21 + v22
                v24 = v23 + v5
                v25 = x0[p2 + c10]
                v26 = v24 + v25
                v27 = x0[p2]
                v28 = v7 * v27
                v29 = v26 - v28
                x2[p2] = v29
        else:
            v30 = i0
            v31 = (b14 <= v30) & (v30 < b13)
            v33 = int32(i0 + c15)
            v34 = v33 if v31 else int32(0)
            v38 = (b12 <= v30) & (v30 < b17)
            v39 = int32(i0 + c18)
            v40 = v39 if v38 else int32(0)
            if i1 < b9:
                p3 = int32(v34 * s16 + i1)
                v35 = x0[p3]
                v37 = cuda.selp(v31, v35, v36)
                p4 = int32(v40 * s19 + i1)
                v41 = x0[p4]
                v42 = cuda.selp(v38, v41, v36)
                v43 = v37 + v42
                p5 = int32(i0 * s3 + i1)
                v44 = x0[p5 + c6]
                v45 = v43 + v44
                v46 = v45 + v36
                v48 = x0[p5]
                v49 = v47 * v48
                v50 = v46 - v49
                x2[p5] = v50
            elif i1 < b11:
                p6 = int32(v34 * s16 + i1)
                v51 = x0[p6]
                v52 = cuda.selp(v31, v51, v36)
                p7 = int32(v40 * s19 + i1)
                v53 = x0[p7]
                v54 = cuda.selp(v38, v53, v36)
                v55 = v52 + v54
                p8 = int32(i0 * s3 + i1)
                v56 = x0[p8 + c6]
                v57 = v55 + v56
                v58 = x0[p8 + c10]
                v59 = v57 + v58
                v60 = x0[p8]
                v61 = v47 * v60
                v62 = v59 - v61
                x2[p8] = v62
            else:
                p9 = int32(v34 * s16 + i1)
                v63 = x0[p9]
                v64 = cuda.selp(v31, v63, v36)
                p10 = int32(v40 * s19 + i1)
                v65 = x0[p10]
                v66 = cuda.selp(v38, v65, v36)
                v67 = v64 + v66
                v68 = v67 + v36
                p11 = int32(i0 * s3 + i1)
                v69 = x0[p11 + c10]
                v70 = v68 + v69
                v71 = x0[p11]
                v72 = v47 * v71
                v73 = v70 - v72
                x2[p11] = v73
        task = uint32(task + step)
